"""Spare hosts as a feature of the controller: it says which are held.

feature        the line of assembly.py
of_workloads   a condition of each Workload that requests some
of_flavors     events on ResourceFlavors that have a rule
"""
