"""The heads that borrow and wait for their turn: whose answer may have changed since something was taken in their cohort tree.

Usage only grows during a cycle. So a head for which each resource group had exactly one flavor that fits, and none for which
others might be evicted, keeps that flavor as long as what it asks for is still free for its queue, and never borrows less far
than it did. What is free for a queue beyond its own part depends on its parent alone while the queue itself is not charged: for
each parent and resource these heads stand in a heap, the most demanding first. So an admission costs as many steps as there are
parents, plus those that no longer fit, however many heads borrow. All other heads are evaluated again after each admission, and
so are all of a tree in which workloads are about to leave (reservations.py). Called by head_order.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush

from admission.engine.flavors.assign import FlavorAssignment, Mode, PodSetFlavors
from admission.engine.model import FlavorResource, Workload
from admission.engine.quota import cohorts
from admission.engine.quota.cohorts import QuotaNode


def settled(workload: Workload, found: FlavorAssignment) -> bool:
    """Whether the flavors stay the same while as much as they take is free."""
    return workload.gang is None and found.mode is Mode.FIT and all(map(_one_way, found.pod_sets))


def _one_way(pod_set: PodSetFlavors) -> bool:
    """Whether one flavor in each resource group fits, and all others can only be in vain."""
    fitting = [attempt.flavor for attempt in pod_set.attempts if attempt.mode is Mode.FIT]
    others = (attempt.mode for attempt in pod_set.attempts if attempt.mode is not Mode.FIT)
    chosen = {pick.flavor for pick in pod_set.picks.values()}
    return len(fitting) == len(chosen) and chosen == set(fitting) and all(mode is Mode.NO_FIT for mode in others)


@dataclass(slots=True, eq=False)
class Borrowers:
    """Of one tree, by queue. `_since`: how often something had been taken when the head's flavors were found.

    `_needs`: by parent, for each resource how much has to be free there, as a heap (negative amount, since, queue).
    """

    taken: int = 0
    _since: dict[str, int] = field(default_factory=dict)
    _unsettled: set[str] = field(default_factory=set)
    _needs: dict[QuotaNode, dict[FlavorResource, list[tuple[int, int, str]]]] = field(default_factory=dict)

    def add(self, queue: QuotaNode, workload: Workload, found: FlavorAssignment | None) -> None:
        """The head of the queue borrows, with these flavors."""
        self.discard(queue.name)
        if found is None or queue.parent is None or not settled(workload, found):
            self._unsettled.add(queue.name)
            return
        self._since[queue.name] = self.taken
        needs = self._needs.setdefault(queue.parent, {})
        for fr, amount in found.usage.items():
            above = amount - cohorts.local_available(queue, fr)
            heappush(needs.setdefault(fr, []), (-above, self.taken, queue.name))

    def discard(self, queue: str) -> bool:
        """It has another head, or is to be looked at again. True if it was here."""
        known = self._since.pop(queue, None) is not None or queue in self._unsettled
        self._unsettled.discard(queue)
        return known

    def current(self, queue: str) -> bool:
        """Whether nothing was taken since the flavors of its head were found."""
        return self._since.get(queue, self.taken) == self.taken

    def take(self, queue: str, *, leaving: bool) -> list[str]:
        """Usage of the queue has grown: the queues whose heads have to be looked at again; they are no longer here.

        `leaving`: some of the tree are about to leave.
        """
        self.taken += 1
        outdated = {queue, *self._unsettled, *(self._since if leaving else ()), *self._short()}
        return [name for name in sorted(outdated) if self.discard(name)]

    def _short(self) -> Iterator[str]:
        """The queues for whose heads too little is free by now."""
        for parent, needs in self._needs.items():
            for fr, heap in needs.items():
                free = cohorts.available(parent, fr) if heap else 0
                while heap and (-heap[0][0] > free or self._since.get(heap[0][2]) != heap[0][1]):
                    _, since, name = heappop(heap)
                    if self._since.get(name) == since:
                        yield name
