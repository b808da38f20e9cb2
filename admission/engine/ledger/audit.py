"""Recomputes nodes and the usage of queues from the admissions in force, and compares them with what the ledger has.

Called by `Ledger.auditing` in parts, between which the ledger may change. An admission itself never changes, so the last part,
which compares the sums, adds and subtracts the admissions that came and went meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from admission.engine.journal import Journal
from admission.engine.model import Admission, ClusterQueue, FlavorResource
from admission.engine.quota.bound import BoundUsage
from admission.engine.quota.reserved import ReservedQuota
from admission.engine.quota.tree import QuotaTree, outside_usage
from admission.engine.quota.usage_by_priority import UsageByPriority
from admission.engine.topology.allocation.allocations import Allocations
from admission.engine.topology.allocation.audit import PART, differences
from admission.engine.topology.allocation.capacity import Capacity, parts
from admission.engine.topology.allocation.entries import Allocation
from admission.engine.topology.neighbours.audit import wrong_counts


def wrong_nodes(allocations: Allocations, capacity: Capacity) -> Iterator[list[str]]:
    """Yields, in parts, a message for each node or count of pods that does not agree with the admissions and bound pods."""
    yield from differences(allocations, capacity)
    yield from wrong_counts(capacity.placed)
    yield from capacity.differences()


def wrong_quota(
    allocations: Allocations,
    quota: QuotaTree,
    by_priority: UsageByPriority,
    reserved: ReservedQuota,
    bound: BoundUsage,
) -> Iterator[list[str]]:
    """Yields, in parts, a message for each sum that does not agree with the admissions."""
    there, counted, sums = allocations.by_workload, dict[str, Allocation](), _AdmittedUsage()
    for keys in parts(list(there), PART):
        for key in keys:
            if (allocation := there.get(key)) is not None:
                counted[key] = allocation
                sums.count(allocation, +1)
        yield []
    for key, allocation in counted.items():
        if there.get(key) is not allocation:
            sums.count(allocation, -1)
    for key, allocation in there.items():
        if counted.get(key) is not allocation:
            sums.count(allocation, +1)
    sums.add_reserved(reserved)
    sums.add_bound(bound)
    yield list(sums.wrong(quota, by_priority))
    yield list(reserved.differences(_admissions(there)))
    yield list(bound.differences(_admissions(there), allocations.pods))


def _admissions(allocations: Mapping[str, Allocation]) -> dict[str, Admission]:
    """Returns the admissions of this moment: each part of an audit needs its own."""
    return {key: allocation.admission for key, allocation in allocations.items()}


class _AdmittedUsage:
    """The usage of admissions, by queue and by priority."""

    def __init__(self) -> None:
        self._by_queue: dict[str, Counter[FlavorResource]] = {}
        self._by_priority = UsageByPriority(Journal())

    def count(self, allocation: Allocation, sign: int) -> None:
        """Adds one admission (sign 1), or subtracts it (-1)."""
        queue, usage = allocation.admission.cluster_queue, allocation.admission.usage()
        own = self._by_queue.setdefault(queue, Counter())
        for pair, amount in usage.items():
            own[pair] += sign * amount
        self._by_priority.add(queue, allocation.workload.lowest_priority, usage, sign)

    def add_reserved(self, reserved: ReservedQuota) -> None:
        """Adds what is charged for reserved nodes."""
        for queue in reserved.queues():
            self._by_queue.setdefault(queue, Counter()).update(reserved.usage(queue))

    def add_bound(self, bound: BoundUsage) -> None:
        """Adds what bound pods are charged beyond reservations."""
        for excess in bound.all():
            queue = excess.payer.cluster_queue
            self._by_queue.setdefault(queue, Counter()).update(excess.amounts)
            if excess.priority is not None:
                self._by_priority.add(queue, excess.priority, excess.amounts)

    def wrong(self, quota: QuotaTree, by_priority: UsageByPriority) -> Iterator[str]:
        """Yields a message for each difference from the tree and from the usage by priority."""
        for spec in quota.specs():
            if isinstance(spec, ClusterQueue):
                self._by_queue.setdefault(spec.name, Counter()).update(outside_usage(spec))
        for queue, own in sorted(self._by_queue.items()):
            have = {pair: amount for pair, amount in quota.usage(queue).items() if amount}
            want = {pair: amount for pair, amount in own.items() if amount}
            if have != want:
                yield f"quota usage of ClusterQueue {queue} is {have}, its workloads take {want}"
        if by_priority.state() != self._by_priority.state():
            yield f"usage by priority is {by_priority.state()}, the workloads take {self._by_priority.state()}"
        yield from quota.audit()
