"""Queues: their status, and reservations in advance.

queue_status                          the status of ClusterQueues and LocalQueues
advance_reservations                  AdvanceReservations and their status
"""
