"""The due actions for a job, from the job and its Workloads. Pure.

job_plan         the plan of a job; the others are parts of it
workload_plan    the actions for a job and its one Workload
workload         composes a job's Workload
start            starts an admitted job
finish           finishes Workloads
without_pods     jobs that cannot have pods: on hold, or with unreadable pod sets
elastic          which jobs may be resized while they run
job_slices       resizes them
pod_counts       the numbers of pods, as requested and as admitted
equivalence      compares the pod sets of a job with those of its Workload
pod_set_infos    what a start adds to pod sets
pods_ready       PodsReady and reclaimable pods
"""
