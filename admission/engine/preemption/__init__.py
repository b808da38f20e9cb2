"""Whom to evict so that a waiting workload fits. The face is preemptor.py."""
