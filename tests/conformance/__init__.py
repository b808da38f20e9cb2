"""Kueue's own tables as cases: `runner` finds and runs them, `suites/<suite>.py` maps each onto our code."""
