"""Queues single pods and groups of pods: a Workload for each, gates removed on admission, pods ended on eviction.

pod_controller       reconciles a unit: a pod, a group or a gang
pod_plan             computes the due actions for it
compose              composes its Workload
workload_updates     keeps the Workload in step with gated pods
start                the patch that starts a gated pod
replacements         the condition WaitingForReplacementPods
actions, executor    the actions of a plan; performs them
pod_indexes          pods and Workloads by unit
predicates           how urgent a change is
surplus_pods         ends pods beyond what was admitted
marked_namespaces    marks namespaces where jobs without a queue name are managed
gangs                the plan of a gang
gang, gang_limit     the terms of a gang; its time limit
gang_groups          gangs that start together
gang_events          events on waiting members
held_members         what keeps a member from being bound
podgroups            reconciles PodGroups
pod_group_status     the status of a PodGroup
freequeue            the queues of gangs without a queue name
sakkara_groups       the ConfigMaps that describe Sakkara groups
sakkara_terms        the terms of a Sakkara group
sakkara_unit         such a group as a unit of pods
sets                 the controller of StatefulSets and LeaderWorkerSets
setplan, setactions  the due actions for one set; the actions as values
set_metadata         owners, labels and annotations of sets' Workloads
set_slices           resizes a set while it runs
orphaned_pods        a set that is deleted without its pods
pods_without_group   tells why a pod waits that belongs to no set
"""
