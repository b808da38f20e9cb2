"""What writes Workloads."""
