"""Stand-ins for the controllers of Jobs, JobSets and volumes, for kube-scheduler and kubelet, driven by the store's clock."""
