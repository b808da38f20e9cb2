"""Kueue's placement algorithm with equal results: find the level, descend, pick domains, balanced placement.

tree_search   the search for one request on one tree
pick          picks domains one by one
select        selects domains by their counts without sorting all of them
balanced      equal shares on as few domains as possible
"""
