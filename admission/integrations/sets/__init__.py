"""Kinds that create groups of pods and are admitted group by group. Pure.

sets              their interface
replica_groups    their groups, and a pod's membership in one
statefulset       apps/v1 StatefulSet
leaderworkerset   LeaderWorkerSet
scaled            kinds that a JobKind declares by their scale
"""
