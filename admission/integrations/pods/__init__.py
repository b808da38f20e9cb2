"""Pods that are queued by themselves, in groups and in gangs. Pure.

pod              queued pods, and their role in a group
podgroup         a pod or a group of pods as one unit
gang             the gang of a pod, in any dialect
gangplacement    its placement annotations
sakkara          what pods of a Sakkara group must have in common
"""
