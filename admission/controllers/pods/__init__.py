"""Queues single pods and groups of pods: a Workload for each, gates removed on admission, pods ended on eviction.

`pod_controller` reconciles a unit (a pod or a group), `pod_plan` computes the due actions, `executor` performs them.
`compose`, `workload_updates`, `start` and `replacements` are pure parts of the plan; `jobs/` holds what jobs and pods share.

`gang` and `gangs` plan gangs; `sakkara_groups`, `sakkara_terms` and `sakkara_unit`, groups that Sakkara's ConfigMaps describe;
`podgroups` reconciles PodGroups, `gang_groups` gangs that start together, `freequeue` the queues of gangs without a queue
name. `setplan` and `sets` serve StatefulSets and LeaderWorkerSets.
"""
