"""Placement constraints (pack, spread, partition, range, factor); model/level_rule.py has the rule of one level.

shaping        the entry point
arrangements   classes of domains with the same capacity in the same arrangement
domain_kinds   arrangements under the rules of a gang, remembered between gangs
share_sets     sets of shares as bits
plans          the shares that can be best
split          assigns shares to children
fallback       the answer when the budget is spent
"""
