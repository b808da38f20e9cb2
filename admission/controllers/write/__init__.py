"""What writes Workloads: a status, an admission, an eviction.

status               the patch of a status
workload_writer      the Workload of a job or of pods
admission_writer     an admission
ignored_constraints  the constraints that it could not heed
evictor              evictions
active_writer        the condition Active of other objects
creation             objects that are created once
"""
