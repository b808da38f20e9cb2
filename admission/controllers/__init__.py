"""The controller process: informers feed the ledger, cycles decide, and writers update the API server.

cluster_view, feed                    the informers; they keep the ledger and the queues current
scheduler, scheduler_context          the scheduling loop and its dependencies
admission_writer, wait_reasons        write admissions and the reasons why workloads wait; explainer: what would admit them
workloads, lifecycle                  each Workload's next step outside the cycle; admission_context: what the step depends on
evictor, evictions, pending_evictions evict workloads and keep the reasons
nodes, node_replacement               failed nodes and their replacement
queues, active_conditions, status     the status of queues; unsupported_fields: queue fields without effect
gauges, lifecycle_metrics             metrics; queue_totals, fair_share_status: figures in the status of queues
jobs/, pods/                          start and stop jobs, pods, groups and gangs; actions, workload_writer: shared by both
caches, sakkara_trees                 objects that several of these packages read
elastic/, sakkara/                    elastic quotas; ConfigMaps of groups and trees
"""
