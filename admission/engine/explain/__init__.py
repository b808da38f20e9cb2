"""Explains why a workload waits and what would admit it.

explain.py is the entry point, explanation.py defines the result, wording.py its text.
"""
