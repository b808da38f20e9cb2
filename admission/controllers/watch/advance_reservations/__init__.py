"""AdvanceReservations in the view of the cluster.

view   watches them and converts each to a hold of nodes
"""
