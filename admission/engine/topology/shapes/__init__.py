"""Placement constraints (pack, spread, partition, range, factor). shaping.py is the entry point.

model/level_rule.py has the rule of one level, domain_kinds the classes of equivalent domains, plans the shares that can be
best, split the assignment of shares to children, and fallback the answer when the budget is spent.
"""
