"""Spare hosts, and what else workloads hold beside their pods.

spare_hosts       spare hosts of running workloads
flavor_spares     spare hosts of flavors
held_capacity     what workloads may draw on, and hold beside their quota
placed_requests   the requests of a running workload with its present places
"""
