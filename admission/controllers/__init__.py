"""The acting edge of the controller process: from the watch to the ledger, from decisions to the API server.

cluster_view, feed           the informers; they keep the ledger and the queues current
scheduler, scheduler_context the scheduling loop and what it needs. admitting: writes admissions. waits, explaining: waiting
workloads, lifecycle         the next step of each Workload outside of the cycle. admission_context: what it depends on
evictor, evictions, removals which workloads have to leave, and why. nodes, repairs: replacement of failed nodes
queues, activity, status     the status of queues. unsupported_fields: fields of theirs that have no effect
gauges, lives, tally, shares figures
jobs/, pods/                 how jobs, pods, groups and gangs start and stop. actions, writing: what both do to Workloads
elastic/, sakkara/           elastic quotas; ConfigMaps of groups and trees
"""
