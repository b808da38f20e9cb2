"""Devices of dynamic resource allocation (DRA), counted as whole devices of a node.

view            the watched slices, classes and templates, and their effect on Workloads, pods and nodes
counted_kinds   which kinds are counted, and the bounds of their number
requests        the devices that a Workload's pods request, or why these cannot be counted
slices          the number of devices of each kind on a node
"""
