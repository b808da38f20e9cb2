"""Placement on the topology tree: how many pods fit where, under which constraints, and which domains are used.

From a request to an answer:

constraints       a request against a tree: level names become level numbers
count             how many pods fit into every domain
place             places the pod sets of one workload
place_group       places one group of them
messages          the messages of failed placements
oversized         pods that are larger than every host
compatible/       Kueue's algorithm
optimum/          the exact algorithm for one gang
joint/            the placement of several pod sets together
shapes/           placement constraints
evenness          gangs with topology spread
spares            spare hosts of a pod set
budget            the search budget of the exact algorithms

Trees and what is used on them:

tree/             the domains and nodes of a flavor
allocation/       the usage that is charged on them
neighbours/       terms of pods: affinity, anti-affinity and topology spread
usage             the records that all trees share

Pods that run stay where they are:

resize, replace   a job that grows or shrinks while it runs; failed nodes
assignment_parts  splits and merges assignments
on_hosts          restricts a request to some hosts, or to all others
pins              adds hosts to assignments
level_check       whether required levels still hold

Questions, which change nothing:

queries           questions about the live trees
figures           how much of each domain is free, and the largest gang that fits
capacity_bound    an upper bound of the pods that fit
empty_cluster     placement as if nothing were admitted
eviction_gains    what evictions would free for a gang
eviction_order    how many evictions a domain needs
eviction_takes    what workloads use on the rows of a flavor
"""
