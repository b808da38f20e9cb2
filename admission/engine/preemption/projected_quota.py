"""Projects quota to the time after all pending evictions, with capacity reservations charged.

scheduler_state.py and cycle/reservations.py call it. A cycle charges one of its capacity reservations (cycle/reservations.py).
Between cycles this module bounds how much quota an inadmissible workload could get beside the reservations. A reservation
counts against it only if the reserving workload comes first in any case, because it borrows nothing and has a higher priority.
Everything else counts as free. Nodes are not considered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Admission, FlavorResource, Workload
from admission.engine.preemption.reclaimable import reclaimable_bound
from admission.engine.queue.pending import CapacityReservation
from admission.engine.queue.queueing_hints import FreeOf

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class _Shift:
    """Changes in one cohort tree: usage by queue, the part of it that is kept for pending workloads, and the usage of the
    workloads that will be gone, by queue and priority.
    """

    usage: dict[str, dict[FlavorResource, int]] = field(default_factory=dict)
    waiting: dict[str, dict[FlavorResource, int]] = field(default_factory=dict)
    gone: dict[tuple[str, int], dict[FlavorResource, int]] = field(default_factory=dict)

    def apply(self, ledger: Ledger) -> None:
        for queue, usage in self.usage.items():
            ledger.quota.add(queue, usage)
        for queue, usage in self.waiting.items():
            ledger.quota.wait(queue, usage)
        for (queue, priority), usage in self.gone.items():
            ledger.usage_by_priority.add(queue, priority, usage, -1)


class ProjectedQuota:
    """Quota changes relative to the ledger; `leaving` holds the keys of workloads that will be gone."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.leaving: frozenset[str] = frozenset()
        self._trees: dict[str, _Shift] = {}

    def __bool__(self) -> bool:
        """Reports whether anything differs from current usage."""
        return bool(self._trees)

    def concerns(self, tree: str) -> bool:
        """Reports whether anything differs in this tree (`QuotaTree.tree_of`)."""
        return tree in self._trees

    def leave(self, keys: frozenset[str]) -> None:
        """Counts these workloads as gone too."""
        for key in keys - self.leaving:
            workload, admission = self._ledger.workload(key), self._ledger.admission(key)
            if workload is not None and admission is not None:
                shift, queue = self._shift(admission.cluster_queue), admission.cluster_queue
                _add(shift.usage, queue, self._ledger.returned(key, admission), -1)
                _add(shift.gone, (queue, workload.lowest_priority), self._ledger.taken(key, admission), 1)
        self.leaving |= keys

    def take(self, admission: Admission, sign: int = 1) -> None:
        """Charges the admission, or releases it with `sign` -1."""
        shift, name = self._shift(admission.cluster_queue), admission.cluster_queue
        for sums in (shift.usage, shift.waiting):
            _add(sums, name, admission.usage(), sign)

    def _shift(self, queue: str) -> _Shift:
        return self._trees.setdefault(self._ledger.quota.tree_of(queue), _Shift())

    def apply(self, queue: str | None = None) -> None:
        """Applies the changes to the ledger inside a trial; with `queue`, only in the tree of that queue."""
        tree = None if queue is None else self._ledger.quota.tree_of(queue)
        for name, shift in self._trees.items():
            if tree is None or name == tree:
                shift.apply(self._ledger)

    @contextmanager
    def held(self, queue: str) -> Iterator[None]:
        """Makes the ledger's quota in that queue's tree the projected one inside the context."""
        with self._ledger.trial():
            self.apply(queue)
            yield


def _add(sums: dict[K, dict[FlavorResource, int]], key: K, amounts: Mapping[FlavorResource, int], sign: int) -> None:
    usage = sums.setdefault(key, {})
    for fr, amount in amounts.items():
        usage[fr] = usage.get(fr, 0) + sign * amount


def reclaimable_beside(ledger: Ledger, reservations: Iterable[tuple[Workload, CapacityReservation]]) -> FreeOf:
    """Returns a function that bounds the quota of a queue's workloads beside these reservations.

    It is valid while neither the reservations nor the ledger change.
    """
    kept = sorted(reservations, key=lambda each: -each[0].priority)
    free_by_key: dict[tuple[str, FlavorResource, int | None], int] = {}
    projections: dict[int, ProjectedQuota] = {}

    def projected_quota(priority: int) -> ProjectedQuota:
        first = [p for w, p in kept if w.priority > priority and p.level == 0 and not p.beside]
        if len(first) not in projections:
            made = projections[len(first)] = ProjectedQuota(ledger)
            for _, reservation in kept:
                made.leave(reservation.victims)
            for reservation in first:
                made.take(reservation.admission)
        return projections[len(first)]

    def free(queue: str, fr: FlavorResource, priority: int | None) -> int:
        if priority is None or not kept:
            return reclaimable_bound(ledger, queue, fr, priority)
        if (queue, fr, priority) not in free_by_key:
            with projected_quota(priority).held(queue):
                free_by_key[queue, fr, priority] = reclaimable_bound(ledger, queue, fr, priority)
        return free_by_key[queue, fr, priority]

    return free
