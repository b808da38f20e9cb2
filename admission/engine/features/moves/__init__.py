"""Moves: running workloads go to other places, so that a waiting gang gets a domain for which quota is there and room is not.

feature          the place that is held for a head while others leave it
plan             the entry: it returns a `MovePlan` or the reason why none exists
plans            these results
movers           which workloads may move, and what that costs
search, slices   the cheapest set of them: for one domain, for slices that must each stay together
blockers         moves and evictions in one plan
new_places       finds the new places, all free at the same time
vacate           frees a whole domain instead of a gang's place
free_hosts       counts hosts without workloads
choice           chooses between plans
commit           checks a plan against the ledger, and takes its places
plan_times       when the next plan is due
waiting          what a gang loses that waits instead
resume           what an interrupted plan still lacks
levels           the level that a word names
hint, wording    what would free a domain, in words; the messages of movers

Nothing here moves anything. A plan is safe at every step, because each new place is free while every old place is still in use:
first all movers get their new places, then their pods go, then the gang starts. A mover keeps its admission and its quota.
Plans end: each one starts a waiting gang and makes no other workload wait, so the number of waiting workloads falls; and a
moved workload stays for its minimum run time.
"""
