"""Advance reservations: nodes that are held from one time until another, for maintenance or for a planned run.

reservation   which workloads may use the nodes, and when
feature       a head that names its reservation draws on it
"""
