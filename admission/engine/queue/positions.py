"""The sort keys of pending workloads. Called by cluster_queue.py, which makes them, and by all that compares them."""

from __future__ import annotations

Order = tuple[int, float, str, str]
"""Sort key of workloads in evaluation order. Keys are unique, so the order is total. The last item is the workload's key."""

Line = tuple[int, str]
"""A part of a queue whose workloads are in order: the priority with the sign changed, and the LocalQueue; 0, empty: any."""

Position = tuple[int, float, Order]
"""The sort key of a workload within its queue: the priority with the sign changed, the past usage, both 0 if they do not count,
and the order.
"""
