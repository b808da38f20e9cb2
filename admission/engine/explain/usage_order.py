"""Tells what else bears on a waiting workload's quota: LocalQueues that used less, and holds of nodes.

Sources: queue/past_usage.py, quota/reserved.py.
"""

from __future__ import annotations

from admission.engine.expected_start import rfc3339
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Workload
from admission.engine.queue.queues import PendingQueues

_NAMED = 3
"""The number of LocalQueues or holds that a text names; the rest is counted."""


def less_used(queues: PendingQueues, workload: Workload) -> str:
    """Returns a text with the usage of its LocalQueue and of those with less whose workloads wait; empty if there are none."""
    if not queues.orders_by_usage(workload.cluster_queue):
        return ""
    waiting = {
        one.queue
        for one in queues.workloads()
        if one.cluster_queue == workload.cluster_queue
        and one.queue != workload.queue
        and one.blocked is None
        and queues.before(one, workload)
    }
    mine = queues.past.usage(workload.queue)
    before = sorted((used, name) for name in waiting if (used := queues.past.usage(name)) < mine)
    if not before:
        return ""
    named = [f"{name} ({used:.6g})" for used, name in before[:_NAMED]]
    more = [f"{len(before) - _NAMED} more"] if len(before) > _NAMED else []
    others = ", ".join([*named, *more])
    return f"past usage of LocalQueue {workload.queue} is {mine:.6g}, so these with less come first: {others}"


def charged_node_holds(ledger: Ledger, workload: Workload) -> str:
    """Returns a text with the holds of nodes that charge the quota of its ClusterQueue; empty if none does.

    The one that the workload itself draws on is left out.
    """
    charges = ledger.reserved.charges(workload.cluster_queue)
    holds = [ledger.node_holds[name] for name in charges if name in ledger.node_holds and any(charges[name].values())]
    holds = [hold for hold in holds if hold.name != workload.reservation]
    if not holds:
        return ""
    named = [f"{hold.name} (until {rfc3339(hold.end)})" for hold in holds[:_NAMED]]
    more = [f"{len(holds) - _NAMED} more"] if len(holds) > _NAMED else []
    return f"quota of ClusterQueue {workload.cluster_queue} is charged for {holds[0].kind} {', '.join([*named, *more])}"
