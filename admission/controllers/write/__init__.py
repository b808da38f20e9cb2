"""What writes Workloads: a status, an admission, an eviction.

status, workload_writer               the patch of a status; the Workload of a job or of pods
admission_writer, ignored_constraints an admission, and the constraints that it could not heed
evictor                               evictions
active_writer                         the condition Active of other objects
creation                              objects that are created once
"""
