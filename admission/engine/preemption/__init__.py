"""Choose the workloads to evict so that a waiting workload fits.

preemptor          the entry point
candidates         the workloads that may be evicted, and their order
classical, fair    Kueue's classical and fair-sharing preemption
cheapest           the cheapest victims, for Profile Exact
fair_cheapest      the same under fair sharing
branch_and_bound   the search for them in one domain
victim_search      the state that the searches of all domains share
tail_bounds        lower bounds for the rest of a search
cost               the cost of evictions
removal            removes victims in a trial, and reprieves those that are not needed
projected_quota    quota after all pending evictions
reclaimable        an upper bound of the quota that evictions can give
wording            Kueue's texts about an eviction
"""
