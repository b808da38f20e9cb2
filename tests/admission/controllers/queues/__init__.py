"""Queues and reservations."""
