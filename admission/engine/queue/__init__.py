"""The pending workloads of all ClusterQueues: their order, which are inadmissible, and what requeues them."""
