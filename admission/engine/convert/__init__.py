"""Converts objects of the API to the engine's values. Pure.

convert_workloads, convert_admissions Workloads and their admissions
convert_queues, convert_nodes         queues and cohorts; nodes
convert_moves, convert_advance_reservations   what moves and reservations ask for
conversion_errors                     errors that name the object and the field
"""
