"""Kueue's placement algorithm with equal results: find the level, descend, pick domains, balanced placement."""
