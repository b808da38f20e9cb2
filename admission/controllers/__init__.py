"""The controller process: from watches to the ledger, from decisions to the API server.

cluster_view, feed                    the informers; they keep the ledger and the queues current
scheduler, scheduler_context          the scheduling loop and what it needs
admission_writer, wait_reasons        write admissions, and why a workload waits; explainer: what would admit it
workloads, lifecycle                  the next step of each Workload outside of the cycle; admission_context: what it depends on
evictor, evictions, pending_evictions which workloads must leave, and why
nodes, node_replacement               failed nodes and their replacement
queues, active_conditions, status     the status of queues; unsupported_fields: fields of theirs that have no effect
gauges, lifecycle_metrics             metrics; queue_totals, fair_share_status: the figures in the status of queues
jobs/, pods/                          start and stop jobs, pods, groups and gangs; actions, workload_writer: shared by both
caches, sakkara_trees                 objects that several of these packages read
elastic/, sakkara/                    elastic quotas; ConfigMaps of groups and trees
"""
