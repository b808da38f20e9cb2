"""Questions about the live trees, which change nothing.

queries           the entry point of all others: what the ledger asks about placement
figures           how much of each domain is free, and the largest gang that fits
capacity_bound    an upper bound of the pods that fit
empty_cluster     placement as if nothing were admitted
level_check       whether required levels still hold
"""
