"""What pods say of other pods near them: required anti-affinity, on nodes where pods are already and within one gang.

`placed.py` knows which pods are where and which domains a term closes; `tally.py` counts for one term; `within.py` keeps
the pods of one gang apart.
"""
