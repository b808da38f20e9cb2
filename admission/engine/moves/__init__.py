"""Moves: running workloads go to other places, so that a waiting gang gets a domain for which quota is there and room is not.

`plan.py` is the entry: it returns a `MovePlan` or the reason why none exists. `movers.py` says which workloads may move and
what that costs, `search.py` finds the cheapest set of them, `holding.py` finds and holds the new places, `vacate.py` plans a
whole domain instead of a gang's place, `choice.py` chooses between plans, `plan_times.py` says when the next one is due,
`waiting.py` what the gang loses that waits instead, `resume.py` what an interrupted plan still lacks, `plans.py` has the
values, and `wording.py` the messages of movers. Nothing here moves anything.

A plan is safe at every step, because each new place is free while every old place is still in use: first all movers get
their new places, then their pods go, then the gang starts. A mover keeps its admission and its quota. Plans end: each one
starts a waiting gang and makes no other workload wait, so the number of waiting workloads falls; and a moved workload stays
for its minimum run time.
"""
