"""Volumes that restrict the nodes of a pod, following kube-scheduler's filters.

pod_claims.py  the claims that a Workload's pods use
binding.py     the nodes that a claim allows its pods, or why it cannot be bound
reach.py       the nodes that reach a volume, as selectors
shared.py      the nodes for pods that share a claim whose volume is chosen later
choosers.py    which workload may choose among volumes that are not counted
capacity.py    the nodes for which a driver can provision
local.py       the volumes that each host has left, of a class that makes none
view.py        the watched claims, volumes and classes, and their effect on each Workload
"""
