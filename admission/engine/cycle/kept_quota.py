"""Quota that the refused head of a StrictFIFO queue keeps from borrowers, as in Kueue (cycle.md 4.2).

A queue that may not reclaim lent quota would have to wait until its borrowers end. So while its head waits, and could start
if workloads left, later workloads cannot borrow as much of the queue's unused nominal quota as the head requests. A head that
would borrow also keeps the quota that it would borrow, up to its limit. The head of a BestEffortFIFO queue keeps nothing,
because later workloads may pass it. The head of a queue that reserves its start keeps nothing either.

During a cycle the ledger counts kept quota under a separate key. A head that is evaluated again keeps nothing until it is
refused. Called by cycle.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from heapq import heappop, heappush

from admission.engine.cycle.nomination import Nomination
from admission.engine.flavors.assign import FlavorAssignment, Mode
from admission.engine.ledger.holds import Hold, HoldKind
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Admission, ClusterQueue, FlavorResource, QueueingStrategy, Workload
from admission.engine.queue.cluster_queue import order_of
from admission.engine.queue.pending import KeptRequest
from admission.engine.queue.positions import Order
from admission.engine.queue.queues import PendingQueues


def keepable(ledger: Ledger, queue: str, level: int, usage: Mapping[FlavorResource, int]) -> dict[FlavorResource, int]:
    """Returns the part of the usage that unused nominal quota covers; with borrowable quota up to `level`."""
    used, amounts = ledger.quota.usage(queue), {}
    for fr, amount in usage.items():
        limit = ledger.quota.borrowing_limit(queue, fr) if level > 0 else 0
        own = amount if limit is None else ledger.quota.nominal(queue, fr) + limit - used.get(fr, 0)
        amounts[fr] = max(0, min(amount, own))
    return amounts


def limited(admission: Admission, amounts: Mapping[FlavorResource, int]) -> Admission:
    """Returns the admission with its total usage reduced to at most these amounts."""
    left = dict(amounts)
    pod_sets = []
    for pod_set in admission.pod_sets:
        usage = {}
        for resource, amount in pod_set.usage.items():
            fr = (pod_set.flavors[resource], resource)
            usage[resource] = min(amount, left[fr])
            left[fr] -= usage[resource]
        pod_sets.append(replace(pod_set, usage=usage))
    return replace(admission, pod_sets=tuple(pod_sets))


def keeps(queue: ClusterQueue) -> bool:
    """Reports whether the refused head of this queue keeps quota."""
    strict = queue.strategy is QueueingStrategy.STRICT_FIFO and not queue.reserves_starts
    return strict and queue.cohort is not None and queue.preemption.reclaim_within_cohort != "Any"


class KeptQuota:
    """Quota that this cycle keeps for the heads of StrictFIFO queues. Under fair sharing the order of heads is not known in
    advance, so kept quota is withheld from every workload, and borrowed quota is never kept.
    """

    def __init__(self, ledger: Ledger, queues: PendingQueues, *, fair: bool) -> None:
        self._ledger, self._queues, self._fair = ledger, queues, fair
        self._held: dict[str, str] = {}
        self._due: list[tuple[int, Order]] = []
        self._waiting: dict[str, tuple[Workload, KeptRequest]] = {}
        self._holding_head: dict[str, str] = {}
        for workload, kept in queues.kept():
            self._wait(workload, kept)

    def hold_until(self, level: int, order: Order) -> list[str]:
        """Charges the quota kept by heads that come before this place in the order (under fair sharing by all heads). Returns
        their queues.
        """
        names = []
        while self._due and (self._fair or self._due[0] < (level, order)):
            at, (*_, key) = heappop(self._due)
            workload, kept = self._waiting.get(key, (None, None))
            if workload is None or kept is None or (kept.level != at and not self._fair):
                continue
            del self._waiting[key]
            if self._hold(workload, kept):
                names.append(workload.cluster_queue)
        return names

    def keep(self, workload: Workload, queue: ClusterQueue, flavors: FlavorAssignment | None) -> None:
        """Keeps the quota of these flavors for a refused head, which would fit if workloads left."""
        if flavors is None or flavors.mode is Mode.NO_FIT or not keeps(queue):
            return
        kept = KeptRequest(Nomination(workload, flavors).admission(), flavors.level)
        self._queues.keep(workload.key, kept)
        self._wait(workload, kept)

    def replaced(self, head: Workload) -> bool:
        """Reports whether another workload kept quota as the head of this queue.

        Only the head keeps quota, so the other one stops.
        """
        key = self._holding_head.get(head.cluster_queue, head.key)
        if key == head.key:
            return False
        del self._holding_head[head.cluster_queue]
        self.drop(key)
        self._queues.keep(key, None)
        return True

    def drop(self, key: str) -> None:
        """Releases the quota that the workload keeps, because it is evaluated again."""
        self._waiting.pop(key, None)
        if (held := self._held.pop(key, None)) is not None:
            self._ledger.holds.drop(held)

    def end(self) -> None:
        """Ends the cycle: the ledger no longer counts kept quota."""
        for key in tuple(self._held):
            self.drop(key)

    def _wait(self, workload: Workload, kept: KeptRequest) -> None:
        heappush(self._due, (kept.level, order_of(workload)))
        self._waiting[workload.key] = workload, kept
        self._holding_head[workload.cluster_queue] = workload.key

    def _hold(self, workload: Workload, kept: KeptRequest) -> bool:
        queue = self._ledger.quota.spec(workload.cluster_queue)
        if queue is None or not keeps(queue):
            return False
        level = 0 if self._fair else kept.level
        amounts = keepable(self._ledger, queue.name, level, kept.admission.usage())
        if not any(amounts.values()):
            return False
        hold = Hold.of(HoldKind.KEPT_QUOTA, workload, limited(kept.admission, amounts))
        self._ledger.holds.put(hold)
        self._held[workload.key] = hold.key
        return True
