"""Placement on the datacenter tree: how many pods fit where, under which constraints, and which domains are taken.

tree: what there is. allocation: what is allocated on it. compatible: Kueue's algorithm. optimum: one gang to a proved optimum.
joint: several pod sets at once. shapes: placement constraints. Here: one call from the question to the answer (constraints,
count, place), and what stays where it is (elastic, replace, relief, parts, empty).
"""
