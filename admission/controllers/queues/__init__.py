"""Queues: their status, and nodes that are charged to them from a later time on.

queue_status            the status of ClusterQueues and LocalQueues
advance_reservations/   AdvanceReservations and their status
"""
