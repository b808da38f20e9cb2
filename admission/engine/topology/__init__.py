"""Placement on the topology tree: how many pods fit where, under which constraints, and which domains are used.

Packages: tree has the domains and nodes; allocation, the usage charged on them; compatible, Kueue's algorithm; optimum,
the exact algorithm for one gang; joint, the placement of several pod sets together; shapes, placement constraints;
neighbours, terms of pods (affinity, anti-affinity and topology spread).

Modules: constraints, count and place lead from a request to an answer; resize, replace and assignment_parts keep running
pods where they are; pins adds hosts to assignments; eviction_gains, empty_cluster and capacity_bound answer what-if
questions.
"""
