"""Gangs of all dialects: their terms, events, PodGroups and groups.

gang               the terms of a gang
schedule_timeout   the time in which its minimum must be bound
gang_groups        gangs that start together
gang_events        events on waiting members
unbindable         what keeps a member from being bound
podgroups          reconciles PodGroups
pod_group_status   the status of a PodGroup
freequeue          the queues of gangs without a queue name
sakkara_terms      the terms of a Sakkara group
sakkara_unit       such a group as a unit of pods
"""
