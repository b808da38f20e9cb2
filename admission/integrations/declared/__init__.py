"""Kinds of jobs that data describes (JobKind), and what their adapter needs.

declared          the adapter
entries           the paths of a JobKind in a job, and so its pod sets
expressions       its CEL expressions
functions/        functions for kinds that have no path to their pod sets
referenced        objects that define the pods of jobs
parts             the objects that a job's own controller created for it
template_shape    checks that a pod template is one
writeback         a start's additions, as patches in the job
"""
