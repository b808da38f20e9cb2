"""The scheduling loop, and what follows from its decisions.

scheduler, scheduler_context          the loop and what it depends on
pending_evictions, shrunk_jobs        evictions under way; places of jobs that shrank
feature                               a feature that acts beside the scheduler
readiness                             whether the copies are complete
workloads                             each Workload's next step outside the cycle
lost_wake_ups, ledger_audit           watchdogs of the queues and of the ledger
"""
