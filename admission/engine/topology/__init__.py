"""Placement on the datacenter tree: how many pods fit where (tree), under which constraints, and which domains are taken."""
