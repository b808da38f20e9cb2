"""Starts and stops jobs of every kind as their Workloads' conditions require.

job_controller      reconciles a job
plan/               the due actions for it
actions             these actions
executor            performs them
context             what a plan depends on besides the job and its Workloads
controller_context  what the controllers of jobs, pods and sets have in common
fingerprint         tells whether what a plan depends on has changed
ancestors           the ancestor whose admission a job depends on, and child jobs
orphans             Workloads without a job
leftover_pods       pods of an earlier start that the job's status does not count
pods_still_bound    what must wait until such pods have ended
predicates          how urgent a change is
uncreated           pods that the API server refuses to create
"""
