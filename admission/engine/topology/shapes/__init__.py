"""Placement constraints. shaping.py is the entry point; its parts: what a level requires (level_rule), equivalent
domains (domain_kinds), which shares can be best (plans), which child gets which share (split), and what happens when
the budget is spent (rough).
"""
