"""Moves in a simulation, and plans of moves for those who ask.

maker             makes moves as the controller does
defragmentation   plans moves in a world, and shows what would fit afterwards
"""
