"""Nodes: failures, replacement, spare hosts, labels.

node_controller, node_failures        nodes that failed, and what becomes of their pods
node_replacement, displaced, pod_mover  other hosts for lost pods
ended_pods, unbound                   pods that ended or that nobody binds
spare_hosts, flavor_spares            spare hosts of gangs and of flavors
relabelled, shared_hostnames          labels that changed or contradict
"""
