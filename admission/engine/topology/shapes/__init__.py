"""Placement constraints (pack, spread, partition, range, factor); model/level_rule.py has the rule of one level.

shaping        the entry point
domain_kinds   classes of equivalent domains
plans          the shares that can be best
split          assigns shares to children
fallback       the answer when the budget is spent
"""
