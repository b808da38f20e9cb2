"""Workloads that start together (`Gang.together`): which they are, and their place in the order of the cycle.

Called by outcomes.py and reservations.py, and by what decides on such workloads.
"""

from __future__ import annotations

from admission.engine.model import Workload
from admission.engine.queue.cluster_queue import order_of
from admission.engine.queue.positions import Order
from admission.engine.queue.queues import PendingQueues


def starts_with_others(workload: Workload) -> bool:
    """Reports whether the workload starts together with other workloads."""
    return workload.gang is not None and bool(workload.gang.together)


def starting_together(workload: Workload) -> tuple[str, ...]:
    """Returns the keys of the workloads that start together with this one, its own included."""
    together = () if workload.gang is None else workload.gang.together
    return together if workload.key in together else (workload.key, *together)


def order_with_others(workload: Workload, queues: PendingQueues) -> Order:
    """Returns the sort key of the workload in a cycle: that of the last of those that start together with it."""
    others = (queues.workload(key) for key in starting_together(workload))
    return max((order_of(workload), *(order_of(other) for other in others if other is not None)))
