"""The embedded API server: the same REST face in one process, for the demo, the quick tests, faults and `simulate`."""
