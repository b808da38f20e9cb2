"""Volumes that decide which nodes take a pod, as kube-scheduler's filters have it.

pod_claims.py  which claims the pods of a Workload use
binding.py     what one claim means for its pods: nodes, or why it cannot be bound
view.py        the copies of claims, volumes and classes, and what they mean for each Workload
"""
