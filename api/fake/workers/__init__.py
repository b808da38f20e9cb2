"""Stand-ins for Job controller, JobSet controller, kube-scheduler and kubelet, stepped by the store's given clock."""
