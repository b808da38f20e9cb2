"""One pending workload: what is kept of it beside its place in line. Called by queues.py, which moves it about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from admission.engine.model import Admission, Workload
from admission.engine.queue.lacks import Lack
from admission.engine.queue.line import EqualClass, order_of, shape_of


@dataclass(frozen=True, slots=True)
class Promise:
    """What a workload gets once its victims (by key) have left; `level` is how far it borrows then.

    `beside`: what others get then that start together with it, by their keys. `lack`: of which quota there is too little for it
    to start while they are there; None: anything that changes may let it. `evicted`: all that are evicted for it, also
    those that have left since; `since`: when the first of them was chosen (epoch seconds).
    """

    admission: Admission
    victims: frozenset[str]
    level: int = 0
    beside: tuple[tuple[str, Admission], ...] = ()
    lack: Lack | None = None
    evicted: frozenset[str] = frozenset()
    since: float = 0.0

    def bars(self, owner: Workload, other: Workload, *, strict: bool) -> bool:
        """Whether `other` goes behind the owner although its turn may be earlier: perhaps only because of the evictions.

        So do the victims. One of a higher priority that has come since does not; in the same queue nor does one that has come
        since and comes before the owner, and where the queue is a StrictFIFO one (`strict`) none that comes before the owner.
        """
        if not self.evicted or other.key in self.evicted:
            return bool(self.evicted)
        if other.cluster_queue == owner.cluster_queue:
            return order_of(owner) < order_of(other) or (not strict and other.queued < self.since)
        return other.priority <= owner.priority or other.queued < self.since


@dataclass(frozen=True, slots=True)
class Reservation:
    """When (epoch seconds) the head of a queue with backfill starts at the latest, what it gets then, how far it borrows.

    `found`: when that was found out. `firm`: nobody has taken of the places since, nor of the quota without being asked.
    """

    start: float
    admission: Admission
    level: int = 0
    found: float = 0.0
    firm: bool = True


@dataclass(frozen=True, slots=True)
class Kept:
    """What the refused head of a StrictFIFO queue asks for, of which it keeps what is its queue's; how far it would borrow."""

    admission: Admission
    level: int = 0


@dataclass(slots=True)
class Item:
    """A pending workload; without a class it is blocked, or waits for its backoff to end or for its victims to leave."""

    workload: Workload
    group: EqualClass | None = None
    tried: tuple[int, Mapping[tuple[str, str], int]] | None = None
    promise: Promise | None = None
    lapsed: bool = False

    @property
    def active(self) -> bool:
        return self.promise is not None or (self.group is not None and self.group.refused is None)


def same_standing(old: Workload, new: Workload, *, timed: bool = False) -> bool:
    """Whether the change leaves the workload where it is: same queue, order, shape, and nothing else that holds it.

    `timed`: as `shape_of` takes it.
    """
    return old == new or (
        old.cluster_queue == new.cluster_queue
        and order_of(old) == order_of(new)
        and old.blocked == new.blocked
        and old.not_before == new.not_before
        and shape_of(old, timed=timed) == shape_of(new, timed=timed)
    )
