"""Which workloads start now: one admission cycle, the steps it is made of, and what may change its order."""
