"""Starts and stops jobs of every kind as their Workloads' conditions require.

job_controller      reconciles a job
job_plan            computes the due actions for a job; the pure modules are parts of it
workload_plan       those for a job and its one Workload
workload            composes a job's Workload
start, finish       starts an admitted job; finishes Workloads
holding             jobs that cannot have pods: on hold, or with unreadable pod sets
elastic             resizes a job while it runs
equivalence         compares the pod sets of a job with those of its Workload
pod_set_infos       what a start adds to pod sets
pods_ready          PodsReady and reclaimable pods
actions             the actions of a plan
context             what a plan depends on besides the job and its Workloads
executor            performs a plan
controller_context  what the controllers of jobs, pods and sets have in common
fingerprint         tells whether what a plan depends on has changed
ancestors           the ancestor whose admission a job depends on, and child jobs
orphans             Workloads without a job
leftover_pods       pods of an earlier start that the job's status does not count
pods_still_bound    what must wait until such pods have ended
predicates          how urgent a change is
uncreated           pods that the API server refuses to create
"""
