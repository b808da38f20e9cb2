"""Who waits, in which order, and what would be worth another look: the pending workloads of all ClusterQueues."""
