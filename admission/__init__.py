"""Decides which workloads start, and where: webhook, controllers, admission cycle. `admission.engine` is pure."""
