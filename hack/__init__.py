"""Development tools: generated CRDs (`crds`), rules of job kinds (`kinds`), reference pages (`reference`), a real control plane
(`controlplane`), and the lock files."""
