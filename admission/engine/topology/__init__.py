"""Placement on the topology tree: how many pods fit where, under which constraints, and which domains are used.

Packages. tree: the domains and nodes. allocation: what is allocated on them. compatible: Kueue's algorithm. optimum:
one gang to a proved optimum. joint: several pod sets at once. shapes: placement constraints.

Modules here. constraints, count, place: from the request to the answer. resize, replace, assignment_parts: keep what
stays in place. eviction_gains, empty_cluster: what-if questions.
"""
