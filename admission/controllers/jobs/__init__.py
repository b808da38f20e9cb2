"""Jobs of every kind, started and stopped as their Workloads say.

Read `controller` (what wakes a job up), then `plan` (what is due, as values), `executor` (doing it). `start`, `endings`,
`fit`, `workload`, `infos` and `ready` are the chapters of the plan, pure like it; `views` and `family` are what it looks at.
"""
