"""Holds what is used on nodes and in quota, and by whom.

ledger     nodes, usage and admissions, kept incrementally: the only state that a decision reads
holds      what is kept for somebody: the kinds of holds, and their store
audit      recomputes the usage of queues, and compares it with what the ledger has
"""
