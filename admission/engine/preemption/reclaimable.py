"""How much quota a workload could have at most, by evicting whomever it may: less than it asks for, and nothing is to be found.

It is an upper bound, for a moment, of what any search for victims in this package could make free, so that a workload that
lacks more need not be evaluated (queue/queueing_hints.py). Theory: taking usage out of a queue frees as much for it, in all,
and never more. Among its own workloads those may go that policy lets go by priority. Of relatives, without precedence and
without borrowing while it evicts, the queue must stay within its own quota afterwards, with any victims; and it has
precedence in its parent only if it stays within anyhow. Where precedence can come from a cohort further down, where it may
evict and borrow, and where policy is elastic, nothing is counted: there anything is within reach. Fair sharing is not asked
here: its lacks are not told.

Called by outlook.py and cycle/head_hints.py.
"""

from __future__ import annotations

from admission.engine.ledger import Ledger
from admission.engine.model import LARGEST, ClusterQueue, FlavorResource
from admission.engine.quota.cohorts import Node


def reclaimable_bound(ledger: Ledger, queue: str, fr: FlavorResource, priority: int | None) -> int:
    """What is free for the queue now; with a priority: or might be, if all had gone whom such a workload may ever evict."""
    free = ledger.quota.available(queue, fr)
    spec, node = ledger.quota.spec(queue), ledger.quota.node(queue)
    if priority is None or spec is None or node is None:
        return free
    if _uncounted(spec, node):
        return LARGEST
    own = _own(ledger, spec, fr, priority)
    if spec.preemption.reclaim_within_cohort == "Never" or node.parent is None:
        return free + own
    return max(free, node.quota(fr).nominal - node.usage.get(fr, 0)) + own


def _uncounted(spec: ClusterQueue, node: Node) -> bool:
    policy = spec.preemption
    if policy.elastic:
        return True
    if node.parent is None or policy.reclaim_within_cohort == "Never":
        return False
    return node.parent.parent is not None or policy.borrow_policy != "Never"


def _own(ledger: Ledger, spec: ClusterQueue, fr: FlavorResource, priority: int) -> int:
    """What of the queue's usage policy lets go for that priority; who is newer is not asked."""
    match spec.preemption.within_cluster_queue:
        case "Never":
            return 0
        case "LowerPriority":
            return ledger.usage_by_priority.below(spec.name, fr, priority)
        case "LowerOrNewerEqualPriority":
            return ledger.usage_by_priority.below(spec.name, fr, priority + 1)
        case _:
            return ledger.quota.usage(spec.name).get(fr, 0)
