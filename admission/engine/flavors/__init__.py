"""Flavor assignment: the flavor of each pod set, by eligibility and free quota.

search        finds a flavor for each pod set
eligible      whether a pod set may use a flavor, whatever is free
fungibility   ranks flavors, and ends the search
assign        the result, as values
"""
