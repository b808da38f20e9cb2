"""Backfill: workloads that may start before a waiting head without delaying it.

feature             the hooks in the cycle, and the rules
heads               the reserved start of a queue's first waiting workload
behind              who may start before it
outlasted           who leaves because it ran longer than expected
future              the ledger at later moments of a cycle
projected_ledger    the same for one head after the other
start_order         the start reservations before a workload
gallop              the search for the first moment that fits
"""
