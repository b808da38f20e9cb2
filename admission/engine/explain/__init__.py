"""Explains why a workload waits and what would admit it.

explain              the entry point
explanation          the result, as values
wording              its text
explanation_json     the same as plain data
changes              the changes of a remedy, as values
remedies             searches the smallest changes that would admit a workload
workload_changes     those that its owner can make
capacity_changes     those that an administrator can make
finishing            the workloads whose end would admit it
apply_changes        applies a change to a ledger
trials, cycle_trials  tries a remedy: on a trial of the ledger, by a whole cycle
cycle_decision       what the cycle would decide now
flavor_capacity      what each level offers, and what limits it
capacity_users       what uses the capacity of given nodes
quotas, usage_order  which queues use the quota; what else bears on it
certificates         certificates for a workload's domains
"""
