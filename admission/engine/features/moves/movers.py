"""Which running workloads may be moved at a moment, and the work that a move of each loses.

The unit of cost is the device-second: one second of work of one device. The devices of a pod are its extended resources (GPUs
and the like), or one if it has none. A move loses the seconds since the last checkpoint, or since the start if there is none,
and the declared seconds of a restart, for each device.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from admission.engine.cycle.placed_requests import placed_requests
from admission.engine.decision import PreemptionReason
from admission.engine.ledger.holds import LABEL_BESIDE_PODS
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import NO_TERMS, Admission, ClusterQueue, PlacementRequest, RestartTerms, Workload
from admission.engine.pauses import no_pause

MINIMUM_RUN: Final = 600
"""Seconds that a workload runs undisturbed after its start and after a move if neither it nor its queue says otherwise."""
DAY: Final = 86_400
"""Seconds of the day for which a queue has a budget of moves."""
WITHIN_MINIMUM: Final = "within its minimum run time"
USED_UP: Final = "the moves of its queue are used up for today"
_MOST_LOST: Final = 10 * 366 * 86_400
"""A longer time without a checkpoint counts as ten years, so that a wrong clock gives no boundless cost."""


@dataclass(frozen=True, slots=True, eq=False)
class Mover:
    """A workload that may be moved: its present admission, its requests without a place, and the device-seconds lost.

    With a `claim` it is evicted for that reason instead. `weight` is what a search adds up; the cost unless blockers.py says
    otherwise.
    """

    workload: Workload
    admission: Admission
    requests: tuple[PlacementRequest, ...]
    cost: int
    size: int
    claim: PreemptionReason | None = None
    ranked: int | None = None

    @property
    def weight(self) -> int:
        """What the search adds up."""
        return self.cost if self.ranked is None else self.ranked

    @property
    def key(self) -> str:
        """The workload's key."""
        return self.workload.key


@dataclass(frozen=True, slots=True)
class Movers:
    """The workloads that may be moved, and why the others may not, both by key."""

    by_key: Mapping[str, Mover]
    stays: Mapping[str, str] = field(default_factory=dict)

    def staying(self, ledger: Ledger, flavors: Collection[str]) -> dict[str, int]:
        """Returns how many workloads of these flavors may not be moved, by the reason."""
        return dict(Counter(why for key, why in self.stays.items() if _uses(ledger.admission(key), flavors)))


def movers_of(
    ledger: Ledger,
    now: float,
    left: Mapping[str, int],
    *,
    bound: bool = False,
    anyone: bool = False,
    pause: Callable[[], None] = no_pause,
) -> Movers:
    """Returns the workloads that may be moved at `now` (epoch seconds).

    `left` is the number of moves that each ClusterQueue may still make today; a queue that is not in it has no limit. `bound`:
    only workloads whose pods are all bound. `anyone`: as if all of them allowed it.
    """
    movers: dict[str, Mover] = {}
    stays: dict[str, str] = {}
    for key in sorted(ledger.admissions.keys() - ledger.holds.keys):
        pause()
        mover = mover_of(ledger, key, now, left, bound=bound, anyone=anyone)
        if isinstance(mover, Mover):
            movers[key] = mover
        else:
            stays[key] = mover
    return Movers(movers, stays)


def _uses(admission: Admission | None, flavors: Collection[str]) -> bool:
    pod_sets = () if admission is None else admission.pod_sets
    return any(flavor in flavors for got in pod_sets for flavor in got.flavors.values())


def moves_left(ledger: Ledger, now: float) -> dict[str, int]:
    """Returns the number of moves that each ClusterQueue may still make today; queues without a limit are not in it.

    Only the last move of a workload has a time: the earlier ones of a workload that was moved today count as of today.
    """
    limits = {name: q.moves_per_day for name in _queues(ledger) if (q := ledger.quota.spec(name)) is not None}
    left = {name: limit for name, limit in limits.items() if limit is not None}
    for name in left:
        terms = (allocation.workload.restart for allocation in ledger.charged_to(name))
        left[name] = max(0, left[name] - sum(one.times for one in terms if moved_today(one.moved, now)))
    return left


def moved_today(at: float | None, now: float) -> bool:
    """Reports whether a move at that time counts for the budget of the day that ends now."""
    return at is not None and now - at < DAY


def _queues(ledger: Ledger) -> list[str]:
    return sorted({admission.cluster_queue for admission in ledger.admissions.values()})


def terms_of(workload: Workload, queue: ClusterQueue | None) -> RestartTerms:
    """Returns the workload's terms, completed by those of its ClusterQueue."""
    return workload.restart.completed_by(NO_TERMS if queue is None else queue.restart)


def mover_of(
    ledger: Ledger, key: str, now: float, left: Mapping[str, int], *, bound: bool = False, anyone: bool = False
) -> Mover | str:
    """Returns the workload as a mover, or why it may not be moved; arguments as of `movers_of`."""
    workload, admission = ledger.workload(key), ledger.admission(key)
    if workload is None or admission is None:
        return "not admitted"
    terms = terms_of(workload, ledger.quota.spec(admission.cluster_queue))
    if anyone:
        terms = replace(terms, movable=True)
    if (why := _stays(workload, terms, now)) is not None:
        return why
    if left.get(admission.cluster_queue, 1) <= 0:
        return USED_UP
    requests = tuple(replace(one, previous=None) for one in placed_requests(ledger, workload, admission))
    if len(requests) < len(admission.pod_sets) or not requests:
        return "not placed by topology"
    if any(request.asks_beside for request in requests):
        return f"holds {LABEL_BESIDE_PODS}"
    if bound and not _all_bound(ledger, key):
        return "its pods do not all run"
    size = sum(request.count * request.pod_set.devices for request in requests)
    return Mover(workload, admission, requests, size * ((terms.cost or 0) + _lost_seconds(workload, terms, now)), size)


def loss(ledger: Ledger, key: str, now: float) -> int:
    """Returns the device-seconds of work that the admitted workload loses if it stops now; 0 if it is not admitted."""
    workload, admission = ledger.workload(key), ledger.admission(key)
    if workload is None or admission is None or workload.admitted is None:
        return 0
    terms = terms_of(workload, ledger.quota.spec(admission.cluster_queue))
    return workload.devices * ((terms.cost or 0) + _lost_seconds(workload, terms, now))


def _stays(workload: Workload, terms: RestartTerms, now: float) -> str | None:
    """Returns why the workload may not be moved now; None if it may."""
    if not terms.movable:
        return "not declared movable"
    if workload.evicted or workload.admitted is None:
        return "not running"
    if terms.moving:
        return "on its way to another place"
    if workload.one_pod or workload.replaces or workload.gang is not None:
        return "of plain pods, which nothing recreates, or of an elastic job that grows"
    return WITHIN_MINIMUM if now < _undisturbed_until(terms, workload.admitted) else None


def _undisturbed_until(terms: RestartTerms, admitted: float) -> float:
    """Returns when its minimum run time ends."""
    return max(admitted, terms.moved or admitted) + (MINIMUM_RUN if terms.minimum_run is None else terms.minimum_run)


def movable_from(ledger: Ledger, key: str) -> float:
    """Returns when the minimum run time of the workload ends (epoch seconds); 0 if it is not admitted."""
    workload, admission = ledger.workload(key), ledger.admission(key)
    if workload is None or admission is None or workload.admitted is None:
        return 0.0
    return _undisturbed_until(terms_of(workload, ledger.quota.spec(admission.cluster_queue)), workload.admitted)


def _all_bound(ledger: Ledger, key: str) -> bool:
    """Reports whether the workload's bound pods are exactly those of its admission, each at its place.

    A pod that is not bound is counted by the assignment alone, and would come to the old place when the assignment is gone.
    """
    allocation = ledger.allocations.by_workload.get(key)
    return allocation is not None and all(
        len(entry.covered) == entry.count and not entry.excess for entry in allocation.entries.values()
    )


def _lost_seconds(workload: Workload, terms: RestartTerms, now: float) -> int:
    since = max(workload.admitted or 0.0, terms.checkpoint or 0.0, terms.moved or 0.0)
    return int(min(max(0.0, now - since), _MOST_LOST))
