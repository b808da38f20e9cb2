"""Choose the workloads to evict so that a waiting workload fits. The entry point is preemptor.py."""
