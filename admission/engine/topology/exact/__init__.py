"""The exact algorithms, each with a budget of search nodes.

optimum/   one gang: the fewest and fullest domains
joint/     several pod sets together
shapes/    one gang under placement constraints
budget     what a search raises whose budget is spent
"""
