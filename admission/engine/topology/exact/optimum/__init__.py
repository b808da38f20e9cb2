"""The exact algorithm for one homogeneous gang that needs several domains.

exact            the entry point
objective        the figures that are compared
solver           a quick answer, lower bounds, and a search that closes the gap
lower_bounds     bounds from capacities
numbers          selects domains by capacity, ignoring the tree
subset_sum       the least stranded slices, ignoring the tree
fewest_parents   the fewest domains of the levels above
parent_table     the domains of each capacity in each parent
labels           the search on a tree of candidates, by label setting
trees            that tree
reduced_costs    eliminates domains
tight            the best answer among those that meet a lower bound
elimination      the fewest domains below the requested level
"""
