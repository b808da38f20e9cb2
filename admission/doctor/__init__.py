"""Checks of an installation and its cluster, for `stowage doctor`: what is wrong, why it matters, what mends it.

finding    a check's declaration, and what it finds
view       the cluster as the checks see it; expected: what the shipped manifests install
read       reads a view from the API server, in bounded pages; question: what it asks besides
report     runs checks on a view
discovery, unmanaged   custom kinds; their objects that name a queue
checks     one module per subject; `checks.ALL` lists the declarations
preflight  what stands in the way of a migration from Kueue
"""
