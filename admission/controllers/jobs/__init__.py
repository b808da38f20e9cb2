"""Starts and stops jobs of every kind as their Workloads' conditions require.

`controller` reconciles a job, `plan` computes the due actions as values, and `executor` performs them. `start`, `finish`,
`holding`, `elastic`, `equivalence`, `workload`, `pod_set_infos` and `pods_ready` are pure parts of the plan. `orphans` finishes
Workloads whose job is gone. `ancestors` and controllers/caches.py hold the objects that a plan reads; `fingerprint` tells if
they changed; `predicates` classifies changes.
"""
