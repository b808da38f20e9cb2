"""Jobs of every kind, started and stopped as their Workloads say.

`controller` reconciles a job, `plan` lists the actions that are due, as values, and `executor` performs them. `start`,
`finish`, `equivalence`, `workload`, `pod_set_infos` and `pods_ready` are parts of the plan and pure like it. `ancestors`
and controllers/caches.py hold the objects that it reads; `predicates` says which changes matter.
"""
