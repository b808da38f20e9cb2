"""Simulation: a world through the real engine on virtual time, and its results.

run.py         simulate: arrivals, cycles, ends, in their order; nothing waits for a clock
result.py      the result of each workload, and the figures over all
tables.py      the results as tables (rich); result_json.py: as JSON
occupancy.py   how full the domains of a tree are at one moment
picture.py     that as SVG or PNG
"""
