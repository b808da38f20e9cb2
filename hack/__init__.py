"""Tools for those who work on the project: generated CRDs (`crds`), a real control plane (`controlplane`), the lock files."""
