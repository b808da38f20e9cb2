"""Volumes that restrict the nodes of a pod, following kube-scheduler's filters.

view          the watched claims, volumes and classes, and their effect on each Workload
pod_claims    the claims that a Workload's pods use
binding       the nodes that a claim allows its pods, or why it cannot be bound
reach         the nodes that reach a volume, as selectors
shared        the nodes for pods that share a claim whose volume is chosen later
choosers      which workload may choose among volumes that are not counted
capacity      the nodes for which a driver can provision
local         the volumes that each host has left, of a class that makes none
attachments   how many more volumes of a driver a node can attach
"""
