"""Flavor assignment: the flavor of each pod set, by eligibility and free quota."""
