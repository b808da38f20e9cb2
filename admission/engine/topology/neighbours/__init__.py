"""Terms of pods about other pods: required pod affinity and anti-affinity, and topology spread with DoNotSchedule.

`counts.py` counts all pods by place, `tally.py` those that one term selects; `audit.py` counts again and compares. `placed.py`
derives the nodes that a pod may use. `within.py` separates the pods of one gang, and `even.py` spreads them.
"""
