"""Kueue's algorithm, exactly: find the level, descend, pick domains, balanced placement."""
