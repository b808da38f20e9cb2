"""Moves of running jobs."""
