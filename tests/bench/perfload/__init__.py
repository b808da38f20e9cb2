"""Kueue's own performance load on the real API server: Workloads made directly, finished by a mimic of their jobs.

    python -m tests.bench perfload [--fraction 0.05] [--without-topology] [--floor] [--top 40]

Only etcd, kube-apiserver and our controller run; nobody owns the Workloads, and no pod exists. Modules: objects (what is
posted, from simulate.json), driver (creates at the load's pace, finishes what was admitted), stamp (the floor's process: the
same writes without any decision), figures (what is printed), run (ties them together).
"""
