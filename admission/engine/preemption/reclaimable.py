"""An upper bound of the quota that a workload could have by evicting every workload that it may evict.

projected_quota.py and cycle/heads/head_hints.py call it. If even this bound is below the request, no search of this package can
succeed, so the workload need not be evaluated (queue/queueing_hints.py). The bound holds at one moment.

Theory: removing usage from a queue never frees more for it than that usage. In its own queue a preemptor may evict what the
policy allows by priority. For workloads of other queues, without a hierarchical advantage and without borrowing while
evicting, the preemptor's queue must stay within its own quota afterwards, whatever the victims; and an advantage in the parent
cohort requires the same. So

    bound = max(free, nominal - used) + reclaimable in the own queue

The bound is infinite where the advantage can come from a lower cohort, where the queue may evict and borrow, and where the
policy keeps nominal quotas. Fair sharing is not considered: no hints are recorded for it.
"""

from __future__ import annotations

from admission.engine.ledger.ledger import Ledger
from admission.engine.model import LARGEST, ClusterQueue, FlavorResource
from admission.engine.quota.cohorts import QuotaNode


def reclaimable_bound(ledger: Ledger, queue: str, fr: FlavorResource, priority: int | None) -> int:
    """Returns the queue's free quota; with a priority, the upper bound after every eviction that this priority permits."""
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


def _uncounted(spec: ClusterQueue, node: QuotaNode) -> bool:
    policy = spec.preemption
    if policy.keeps_nominal:
        return True
    if node.parent is None or policy.reclaim_within_cohort == "Never":
        return False
    return node.parent.parent is not None or policy.borrow_policy != "Never"


def _own(ledger: Ledger, spec: ClusterQueue, fr: FlavorResource, priority: int) -> int:
    """Returns how much of the queue's usage this priority may evict; equal priorities count, whether newer or not."""
    match spec.preemption.within_cluster_queue:
        case "Never":
            return 0
        case "LowerPriority":
            return ledger.usage_by_priority.below(spec.name, fr, priority)
        case "LowerOrNewerEqualPriority":
            return ledger.usage_by_priority.below(spec.name, fr, priority + 1)
        case _:
            return ledger.quota.usage(spec.name).get(fr, 0)
