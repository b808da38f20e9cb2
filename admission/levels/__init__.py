"""Labels of topology levels on nodes, for `stowage topology init` and `stowage doctor`. Pure.

sources      the label keys that clouds and Topograph put on nodes
oddities     nodes that lack a level, or contradict each other
level_plan   the Topologies and ResourceFlavors for the nodes of a cluster
tree         a plan's tree as text
"""
