"""Elastic jobs: the next Workload of a job that grows, its slice, replaces the admitted one.

feature         at the turn of a slice: its growth
growth          how many of its new pods start now, and where
shrunk_places   the places of a job that has shrunk
"""
