"""Devices of dynamic resource allocation (DRA), counted as whole devices of a node.

counted_kinds.py  which kinds are counted, and the bounds of their number
requests.py       the devices that a Workload's pods request, or why these cannot be counted
slices.py         the number of devices of each kind on a node
view.py           the watched slices, classes and templates, and their effect on Workloads, pods and nodes
"""
