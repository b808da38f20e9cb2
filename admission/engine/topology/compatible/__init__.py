"""Kueue's algorithm to the letter: the level, the descent, the picking of domains, balanced placement."""
