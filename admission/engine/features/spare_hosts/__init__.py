"""Spare hosts as a feature of the cycle: hosts that are kept free for pods that lose theirs.

feature        the hooks, and who holds and gives the hosts
of_workloads   spare hosts of running workloads
of_flavors     spare hosts of flavors
records        snapshots and words
"""
