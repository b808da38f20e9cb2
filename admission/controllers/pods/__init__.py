"""Plain pods and groups of pods: a Workload for each, gates opened when it is admitted, pods ended when it must stop.

Read `controller` (what wakes a unit up), then `plan` (what is due, as values), `executor` (doing it). `compose`, `following`,
`start` and `replacements` are chapters of the plan, pure like it. What jobs have in common with it is theirs (`jobs/`).

`gang` and `gangs` are the plan under the terms of a gang, `podgroups` its PodGroup, `together` the gangs that start in one,
`freequeue` the queues of those that name none. `setplan` and `sets` are StatefulSets and LeaderWorkerSets.
"""
