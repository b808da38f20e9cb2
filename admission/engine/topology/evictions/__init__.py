"""What evictions would free for a gang.

eviction_gains    the pods that each domain would hold without its victims
eviction_order    how many evictions a domain needs
eviction_takes    what workloads use on the rows of a flavor
"""
