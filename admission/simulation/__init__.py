"""Simulation: runs a world through the real engine on virtual time, and reports the result.

run                   simulate: arrivals, cycles and ends in order; nothing waits for a clock
attempts              the work of a workload from one start to a stop, and what the stop loses
room_maker            what may act between the cycles
moves/                makes moves as the controller does, and plans them
comparison            figures of a simulation, to compare it with another
result                the result of each workload, and statistics over all
tables, result_json   the results as tables (rich), and as JSON
occupancy             the occupancy of a tree's domains at one moment
picture               the occupancy as SVG or PNG
"""
