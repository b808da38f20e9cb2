"""Stand-ins for the controllers of Jobs, JobSets and volumes, for kube-scheduler and kubelet. The store's clock steps them."""
