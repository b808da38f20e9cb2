"""Advance reservations: their status. The view of them is controllers/watch/advance_reservations/view.py.

feature                  what the process runs for them
reservation_controller   the status of AdvanceReservations; their beginning and their end
"""
