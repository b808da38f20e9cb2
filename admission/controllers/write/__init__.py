"""What writes Workloads. `status` alone writes a status; those who ask for it are in this package too.

status               the patch of a status
outcome              what became of a write
workload_writer      the Workload of a job or of pods
admission_writer     an admission or a move
ignored_constraints  the constraints that it could not heed
evictor              evictions
lifecycle_writer     steps of a Workload's life
report_writer        what one controller reports: a condition, failed nodes, a check
active_writer        the condition Active of other objects
creation             objects that are created once
"""
