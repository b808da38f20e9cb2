"""Plain pods and groups of pods: a Workload for each, gates opened when it is admitted, pods ended when it must stop.

`controller` reconciles a unit (a pod or a group), `plan` lists the actions that are due, as values, and `executor`
performs them. `compose`, `workload_updates`, `start` and `replacements` are parts of the plan and pure like it. `jobs/`
holds what jobs and pods have in common.

`gang` and `gangs` plan gangs, `sakkara_groups`, `sakkara_terms` and `sakkara_unit` those that a ConfigMap of Sakkara describes,
`podgroups` their PodGroup, `gang_groups` gangs that start together, `freequeue` the
queues of gangs that name none. `setplan` and `sets` are for StatefulSets and LeaderWorkerSets.
"""
