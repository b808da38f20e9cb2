"""The pending workloads of all ClusterQueues: their order, which are inadmissible, and what requeues them.

queues                  the pending workloads of all queues: the entry point
cluster_queue           those of one ClusterQueue
lines                   which change requeues which workloads
first_lines             the lines of a queue that past usage orders
pending, positions      one pending workload; its sort key
queueing_hints          which change can make a workload admissible
pending_reservations    capacity of workloads whose victims are leaving; reserved starts
evictions               recent evictions, by preemptor and victim
past_usage              past usage of LocalQueues
notices                 workloads that a cycle did not evaluate, with the reason
pending_counts          counts for metrics
memory                  results of evaluations that a snapshot keeps
"""
