"""What pods say of other pods near them: required anti-affinity, on nodes where pods are already and within one gang.

`counts.py` knows which pods are where, `placed.py` which domains a term closes; `tally.py` counts for one term; `within.py`
keeps the pods of one gang apart.
"""
