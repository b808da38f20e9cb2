"""Tools for development: generated CRDs (`crds`), a real control plane (`controlplane`), the lock files."""
