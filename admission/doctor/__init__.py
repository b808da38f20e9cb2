"""Checks of an installation and its cluster, for `stowage doctor`: what is wrong, why it matters, how to fix it.

finding    a check's declaration, and what it finds
view       the cluster as the checks see it; expected: what the shipped manifests install
read       reads a view from the API server, in bounded pages; question: its other requests
report     runs checks on a view
discovery, unmanaged   custom kinds; their objects that name a queue
checks     one module per subject; `checks.ALL` lists the declarations
preflight  what stands in the way of a migration from Kueue
"""
