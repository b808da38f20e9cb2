"""Placement on the topology tree: how many pods fit where, under which constraints, and which domains are used.

From a request to an answer:

constraints       a request against a tree: level names become level numbers
count             how many pods fit into every domain
place             places the pod sets of one workload
place_group       places one group of them
messages          the messages of failed placements
oversized         pods that are larger than every host
compatible/       Kueue's algorithm
exact/            the exact algorithms: one gang, several pod sets together, placement constraints
evenness          gangs with topology spread
spares            hosts that a pod set asks to be kept free

Trees and what is used on them:

tree/             the domains and nodes of a flavor
allocation/       the usage that is charged on them
neighbours/       terms of pods: affinity, anti-affinity and topology spread
usage             the records that all trees share

Pods that run stay where they are:

replace           pods of failed nodes get other places
assignments/      splits, merges, restricts and extends assignments; elastic jobs that grow or shrink

Questions, which change nothing:

questions/        questions about the live trees, about an empty cluster, and figures of what is free
evictions/        what evictions would free for a gang
"""
