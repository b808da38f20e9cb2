"""Why a workload waits and what would admit it.

explain.py is the entry point, explanation.py the result, wording.py its text.
"""
