"""What a workload that was refused waits for, so that it is looked at again when that has come, and not before.

A search over flavors ends in vain where each flavor of some resource group failed (flavors/search.py). Unless one of them has
as much quota free as was asked for, or room on its nodes where those were too full, the same search fails in the same way;
what comes free elsewhere does not matter. What was taken by earlier pod sets of the workload counts as well, so only the first
group of pod sets is judged. Nothing is told of a workload that may start with fewer pods.

Where the queue may evict others, a change of usage in its cohort tree may help as well: there might be somebody to evict now,
or enough of them. It does not while there would be too little free even if all had gone that might ever have to
(preemption/reclaimable.py): how much that is depends on the workload's priority, so the lack names it.

Called by cycle/lacking.py; line.py keeps what comes of it with the class of equal workloads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from admission.engine.decision import Reason
from admission.engine.flavors.assign import Attempt, FlavorAssignment, Mode
from admission.engine.model import ClusterQueue, FlavorResource

Free = Callable[[FlavorResource, int | None], int]
"""How much of this is free for a queue; for a priority: or would be if all had gone whom such a workload might ever evict."""

FreeOf = Callable[[str, FlavorResource, int | None], int]
"""`Free` for the queue of this name."""

_FOR_EVER = (Reason.NO_MATCHING_FLAVOR, Reason.EXCEEDS_MAX_QUOTA)


@dataclass(frozen=True, slots=True)
class Lack:
    """`quota`: of one of these as much has to be free for the queue; None: any change of usage among its relatives may help.

    `rooms`: flavors of which one has to get more room on its nodes; None: any. With neither, only a change of the queue, of its
    cohort or of a flavor helps, and that wakes everybody. `priority`: of a workload that may evict others, as `Free` takes it.
    """

    quota: tuple[tuple[FlavorResource, int], ...] | None = None
    rooms: frozenset[str] | None = None
    priority: int | None = None

    def eased(self, free: Free) -> bool:
        """Whether what is free for the queue may be enough."""
        return self.quota is None or any(free(fr, self.priority) >= amount for fr, amount in self.quota)


NOTHING_HELPS = Lack((), frozenset())
USAGE_MAY_HELP = Lack(None, frozenset())


def lack_of_evicting(queue: ClusterQueue, found: FlavorAssignment, priority: int) -> Lack | None:
    """The same for a workload of that priority in a queue that may evict; None too where its nodes are too full.

    The quota is necessary, and may not be enough: there must be those who can go for it.
    """
    lack = lack_of(queue, found)
    return None if lack is None or lack.rooms else replace(lack, priority=priority)


def lack_of(queue: ClusterQueue, found: FlavorAssignment) -> Lack | None:
    """What a search in vain waits for, in a queue that evicts nobody; None: nothing can be told, anything may help."""
    first = next(iter(found.pod_sets), None)
    if first is None or first.mode is Mode.FIT or first.error is not None:
        return None
    if not first.attempts:
        return NOTHING_HELPS if first.reason is Reason.NO_MATCHING_FLAVOR else None
    for group in _in_vain(queue, first.attempts):
        return _lack(group)
    return None


def _in_vain(queue: ClusterQueue, attempts: Sequence[Attempt]) -> Iterator[list[Attempt]]:
    """The attempts of each resource group in which no flavor did."""
    for group in queue.groups:
        names = {quotas.flavor for quotas in group.flavors}
        own = [attempt for attempt in attempts if attempt.flavor in names]
        if len(own) == len(names) and all(attempt.mode < Mode.FIT for attempt in own):
            yield own


def _lack(attempts: Sequence[Attempt]) -> Lack | None:
    quota: list[tuple[FlavorResource, int]] = []
    rooms: set[str] = set()
    for attempt in attempts:
        if attempt.reason is Reason.TOPOLOGY_PLACEMENT_FAILED:
            rooms.add(attempt.flavor)
        elif attempt.lack is not None and attempt.reason is Reason.WAITING_FOR_QUOTA:
            quota.append(attempt.lack)
        elif attempt.reason not in _FOR_EVER:
            return None
    return Lack(tuple(quota), frozenset(rooms))
