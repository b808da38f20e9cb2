"""Converts objects of the API to the engine's values. Pure.

convert_workloads             Workloads
convert_admissions            their admissions, in both directions
convert_queues                ClusterQueues, Cohorts and ResourceFlavors
convert_spares                a flavor's rule for hosts that are kept free
convert_nodes                 nodes and bound pods
convert_moves                 annotations about moves
conversion_errors             errors that name the object and the field
"""
