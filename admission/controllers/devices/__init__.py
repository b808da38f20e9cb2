"""Devices of dynamic resource allocation (DRA), counted as whole devices of a node.

requests.py  what the pods of a Workload ask for, or what of it cannot be counted
slices.py    how many devices of each kind a node has
view.py      the copies of slices, classes and templates, and what they mean for Workloads, pods and nodes
"""
