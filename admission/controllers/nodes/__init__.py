"""Nodes: failures, replacement, labels.

node_controller, node_failures        nodes that failed, and what becomes of their pods
node_replacement, displaced, pod_displacer  other hosts for lost pods
ended_pods, unbound                   pods that ended or that nobody binds
spare_hosts/                          spare hosts of workloads and of flavors
relabelled, shared_hostnames          labels that changed or contradict
"""
