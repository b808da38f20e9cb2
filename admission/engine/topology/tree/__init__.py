"""One flavor's live tree: domains by level, the order of their names, and which nodes a pod may use.

tree            the domains by level, and the free amounts of each row
level           the domains of one level as arrays
order           integer labels that sort like their keys
tree_spec       what determines a flavor's tree
match           the nodes that a pod may use
node_affinity   malformed required node affinity
"""
