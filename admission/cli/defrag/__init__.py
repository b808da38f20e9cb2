"""`stowage defrag`: moves that would give a gang its domain.

command   plans them, and prints the plan
apply     has the controller make them
"""
