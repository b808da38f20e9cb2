"""Borrowing heads that wait for their turn, filed so that an admission re-evaluates only those that it affects.

Usage only grows during a cycle. If exactly one flavor of each resource group fits a head, and no other flavor could be freed
by preemption, the head keeps these flavors as long as the requested amounts are free for its queue, and its borrowing level
never falls. The free quota of a queue beyond its own part depends on its parent alone while the queue is not charged. So each
parent and resource has a heap of such heads, the most demanding first: an admission costs one step per parent, plus one per
head that no longer fits, however many heads borrow. All other heads are evaluated again after each admission, and so are all
heads of a tree with capacity reservations (reservations.py), which may refuse a head whose flavors fit. Called by
head_order.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush

from admission.engine.flavors.assign import FlavorAssignment, Mode, PodSetFlavors
from admission.engine.model import FlavorResource, Workload
from admission.engine.quota import cohorts
from admission.engine.quota.cohorts import QuotaNode


def settled(workload: Workload, flavors: FlavorAssignment) -> bool:
    """Reports whether the flavors stay the same while the amounts that they take are free."""
    return workload.gang is None and flavors.mode is Mode.FIT and all(map(_single_choice, flavors.pod_sets))


def _single_choice(pod_set: PodSetFlavors) -> bool:
    """Reports whether exactly one flavor of each resource group fits and no other could."""
    fitting = [attempt.flavor for attempt in pod_set.attempts if attempt.mode is Mode.FIT]
    others = (attempt.mode for attempt in pod_set.attempts if attempt.mode is not Mode.FIT)
    chosen = {pick.flavor for pick in pod_set.picks.values()}
    return len(fitting) == len(chosen) and chosen == set(fitting) and all(mode is Mode.NO_FIT for mode in others)


@dataclass(slots=True, eq=False)
class Borrowers:
    """The settled borrowing heads of one cohort tree, by queue.

    `_since` counts the admissions in the tree up to the moment when a head's flavors were found. `_needs` has, for each
    parent and resource, a heap of (negative required amount, since, queue).
    """

    taken: int = 0
    _since: dict[str, int] = field(default_factory=dict)
    _unsettled: set[str] = field(default_factory=set)
    _needs: dict[QuotaNode, dict[FlavorResource, list[tuple[int, int, str]]]] = field(default_factory=dict)

    def add(self, queue: QuotaNode, workload: Workload, flavors: FlavorAssignment | None) -> None:
        """Adds the head of a queue that borrows with these flavors."""
        self.discard(queue.name)
        if flavors is None or queue.parent is None or not settled(workload, flavors):
            self._unsettled.add(queue.name)
            return
        self._since[queue.name] = self.taken
        needs = self._needs.setdefault(queue.parent, {})
        for fr, amount in flavors.usage.items():
            above = amount - cohorts.local_available(queue, fr)
            heappush(needs.setdefault(fr, []), (-above, self.taken, queue.name))

    def discard(self, queue: str) -> bool:
        """Removes the head of a queue. Returns True if there was one."""
        known = self._since.pop(queue, None) is not None or queue in self._unsettled
        self._unsettled.discard(queue)
        return known

    def current(self, queue: str) -> bool:
        """Reports whether nothing was admitted in the tree since the flavors of this head were found."""
        return self._since.get(queue, self.taken) == self.taken

    def take(self, queue: str, *, reserved: bool) -> list[str]:
        """Removes and returns the queues whose heads must be evaluated again because the usage of `queue` has grown.

        `reserved`: workloads of this tree hold capacity reservations.
        """
        self.taken += 1
        outdated = {queue, *self._unsettled, *(self._since if reserved else ()), *self._short_of_quota()}
        return [name for name in sorted(outdated) if self.discard(name)]

    def _short_of_quota(self) -> Iterator[str]:
        """Yields the queues whose heads no longer have enough free quota at one of these parents."""
        for parent, needs in self._needs.items():
            for fr, heap in needs.items():
                free = cohorts.available(parent, fr) if heap else 0
                while heap and (-heap[0][0] > free or self._since.get(heap[0][2]) != heap[0][1]):
                    _, since, name = heappop(heap)
                    if self._since.get(name) == since:
                        yield name
