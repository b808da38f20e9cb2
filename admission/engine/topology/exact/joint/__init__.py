"""Placement of several pod sets at once: which pod sets fit into one domain together, and which domain holds each.

joint            groups of one workload that compete for the nodes of one flavor
colocated        three or more pod sets in one domain
problem          the problem as values
domain_search    assigns groups to domains: branch and bound
packing          places pods of several shapes on shared hosts, or proves that they do not fit
limits           upper bounds that prune that search
two_shapes       two shapes on the hosts of one domain
capacity_view    domains and hosts as small tuples
"""
