"""The admission cycle: which workloads start now, and what reserves, orders or limits their starts."""
