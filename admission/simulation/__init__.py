"""What would happen: a world through the real engine on virtual time, and what to tell of it.

run.py       simulate: arrivals, cycles, ends, in their order; nothing waits for a clock
outcome.py   what came of it, workload by workload, and the figures over all
tables.py    the same for people (rich); wire.py: for programs (JSON)
occupancy.py how full the domains of a tree are at one moment
picture.py   that as SVG or PNG
"""
