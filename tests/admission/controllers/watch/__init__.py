"""From the cluster to the engine."""
