"""Simulation: runs a world through the real engine on virtual time, and reports the result.

run.py         simulate: arrivals, cycles and ends in order; nothing waits for a clock
attempts.py    the work of a workload from one start to a stop, and what the stop loses
moves.py       makes moves as the controller does
comparison.py  figures of a simulation, to compare it with another
result.py      the result of each workload, and statistics over all
tables.py      the results as tables (rich); result_json.py: as JSON
occupancy.py   the occupancy of a tree's domains at one moment
picture.py     the occupancy as SVG or PNG
"""
