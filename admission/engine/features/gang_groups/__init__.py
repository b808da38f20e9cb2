"""GangGroups: gangs that start in one cycle or not at all, whatever their namespaces and queues.

feature            at the turn of a member: all of them
groups             whether the group is complete; its start, its victims, or why it waits
gang_fit           whether all members fit at once
gang_preemption    the victims for a whole group
group_decisions    the result for a group, as decisions
"""
