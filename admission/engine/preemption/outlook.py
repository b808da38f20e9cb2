"""Quota as it will be when all who are to leave have left, and what was promised is taken.

A cycle keeps one of its promises (cycle/reservations.py). Between cycles it tells how much those could have at most who sleep
because of promises: what was promised to somebody who comes before them in any case, since it borrows nothing and has a higher
priority, is not theirs; all else counts as free. Nodes are not asked. Called by scheduler_state.py and cycle/reservations.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from admission.engine.ledger import Ledger
from admission.engine.model import Admission, FlavorResource, Workload
from admission.engine.preemption.reclaimable import reclaimable_bound
from admission.engine.queue.pending import CapacityReservation
from admission.engine.queue.queueing_hints import FreeOf


@dataclass(frozen=True, slots=True)
class _Shift:
    """Of one cohort tree: by how much usage will have changed, by queue; who will have gone (queue, priority, usage)."""

    usage: dict[str, dict[FlavorResource, int]] = field(default_factory=dict)
    usage_by_priority: list[tuple[str, int, dict[FlavorResource, int]]] = field(default_factory=list)

    def apply(self, ledger: Ledger) -> None:
        for queue, usage in self.usage.items():
            ledger.quota.add(queue, usage)
        for queue, priority, usage in self.usage_by_priority:
            ledger.usage_by_priority.add(queue, priority, usage, -1)


class Outlook:
    """`leaving`: the workloads (by key) that are to leave."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.leaving: frozenset[str] = frozenset()
        self._trees: dict[str, _Shift] = {}

    def __bool__(self) -> bool:
        """Whether anything will be different."""
        return bool(self._trees)

    def concerns(self, tree: str) -> bool:
        """Whether anything will be different in this tree (`QuotaTree.tree_of`)."""
        return tree in self._trees

    def leave(self, keys: frozenset[str]) -> None:
        """These are to leave as well."""
        for key in keys - self.leaving:
            workload, admission = self._ledger.workload(key), self._ledger.admission(key)
            if workload is not None and admission is not None:
                self.take(admission, -1)
                gone = (admission.cluster_queue, workload.priority, admission.usage())
                self._shift(admission.cluster_queue).usage_by_priority.append(gone)
        self.leaving |= keys

    def take(self, admission: Admission, sign: int = 1) -> None:
        """So much will be taken; `sign` -1: so much less."""
        usage = self._shift(admission.cluster_queue).usage.setdefault(admission.cluster_queue, {})
        for fr, amount in admission.usage().items():
            usage[fr] = usage.get(fr, 0) + sign * amount

    def _shift(self, queue: str) -> _Shift:
        return self._trees.setdefault(self._ledger.quota.tree_of(queue), _Shift())

    def apply(self, queue: str | None = None) -> None:
        """Book it, in a trial; with `queue`, only in the tree of that one."""
        tree = None if queue is None else self._ledger.quota.tree_of(queue)
        for name, shift in self._trees.items():
            if tree is None or name == tree:
                shift.apply(self._ledger)

    @contextmanager
    def held(self, queue: str) -> Iterator[None]:
        """Inside, the ledger's quota is as it will be in that queue's tree."""
        with self._ledger.trial():
            self.apply(queue)
            yield


def reclaimable_beside(ledger: Ledger, reservations: Iterable[tuple[Workload, CapacityReservation]]) -> FreeOf:
    """What is within reach of a queue's workloads beside these promises, as long as neither they nor the ledger change."""
    kept = sorted(reservations, key=lambda each: -each[0].priority)
    found: dict[tuple[str, FlavorResource, int | None], int] = {}
    outlooks: dict[int, Outlook] = {}

    def outlook(priority: int) -> Outlook:
        first = [p for w, p in kept if w.priority > priority and p.level == 0 and not p.beside]
        if len(first) not in outlooks:
            made = outlooks[len(first)] = Outlook(ledger)
            for _, reservation in kept:
                made.leave(reservation.victims)
            for reservation in first:
                made.take(reservation.admission)
        return outlooks[len(first)]

    def free(queue: str, fr: FlavorResource, priority: int | None) -> int:
        if priority is None or not kept:
            return reclaimable_bound(ledger, queue, fr, priority)
        if (queue, fr, priority) not in found:
            with outlook(priority).held(queue):
                found[queue, fr, priority] = reclaimable_bound(ledger, queue, fr, priority)
        return found[queue, fr, priority]

    return free
