"""What jobs, queues and flavors say in annotations. Pure.

requests          the topology request of a pod set
constraints       the language of placement constraints
moves             moves, on jobs, queues and priority classes
defragmentation   moves, on Topologies
spare_hosts       spare hosts of ResourceFlavors
of_features       those that features declare, joined
"""
