"""Tells which LocalQueues come before that of a waiting workload because they used less (queue/past_usage.py)."""

from __future__ import annotations

from admission.engine.model import Workload
from admission.engine.queue.queues import PendingQueues

_NAMED = 3
"""The number of LocalQueues that the text names; the rest is counted."""


def less_used(queues: PendingQueues, workload: Workload) -> str:
    """Returns a text with the usage of its LocalQueue and of those with less whose workloads wait; empty if there are none."""
    if not queues.orders_by_usage(workload.cluster_queue):
        return ""
    waiting = {
        one.queue
        for one in queues.workloads()
        if one.cluster_queue == workload.cluster_queue and one.queue != workload.queue and one.blocked is None
    }
    mine = queues.past.usage(workload.queue)
    before = sorted((used, name) for name in waiting if (used := queues.past.usage(name)) < mine)
    if not before:
        return ""
    named = [f"{name} ({used:.6g})" for used, name in before[:_NAMED]]
    more = [f"{len(before) - _NAMED} more"] if len(before) > _NAMED else []
    others = ", ".join([*named, *more])
    return f"past usage of LocalQueue {workload.queue} is {mine:.6g}, so these with less come first: {others}"
