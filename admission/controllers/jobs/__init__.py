"""Starts and stops jobs of every kind as their Workloads' conditions require.

`job_controller` reconciles a job, `job_plan` computes the due actions, `executor` performs them. `start`, `finish`,
`holding`, `elastic`, `equivalence`, `workload`, `pod_set_infos` and `pods_ready` are pure parts of the plan. `orphans` finishes
Workloads whose job is gone. `ancestors` and controllers/watch/caches.py hold the objects that a plan reads; `fingerprint` tells
if they changed; `predicates` classifies changes.
"""
