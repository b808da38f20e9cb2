"""Whose turn it is in a cycle: the heads of the queues in order, found out as late as possible.

`ClassicalOrder` is the classical order: the least borrowing first, then the higher priority, then the older. How far a
head borrows is only known once its flavors have been looked for; until then it counts as not borrowing, which is the
least it can be. So only heads that could be next are looked at; one that turns out to borrow queues up again. When
something is taken in its tree it is evaluated again, unless its answer cannot have changed (borrowers.py).

`FairOrder` goes by fair shares in each cohort tree (tournament.py): every head of a tree is looked at, and again whenever
something was taken in the tree. Called by cycle.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Protocol

from admission.engine.cycle.borrowers import Borrowers
from admission.engine.cycle.nomination import Nomination
from admission.engine.cycle.tournament import winner
from admission.engine.flavors.assign import FlavorAssignment
from admission.engine.ledger import Ledger
from admission.engine.model import Workload
from admission.engine.queue.cluster_queue import Order, order_of


@dataclass(slots=True, eq=False)
class Head:
    """A queue's head. `level` is how far it borrows, or the least it could while `assignment` is None.

    `refused`: flavors whose nodes did not hold a pod set, with the placement's message; `hopeless`: not even empty ones.
    `first`: it comes before those that are not first, as long as it borrows no further than this; None: it does not.
    `settled`: it is no head any more.
    """

    workload: Workload
    order: Order
    level: int = 0
    assignment: FlavorAssignment | None = None
    refused: dict[tuple[str, str], str] = field(default_factory=dict)
    hopeless: bool = True
    first: int | None = None
    settled: bool = False

    @classmethod
    def of(cls, workload: Workload) -> Head:
        """One that was not looked at yet."""
        return cls(workload, order_of(workload))

    @property
    def queue(self) -> str:
        """Its ClusterQueue."""
        return self.workload.cluster_queue


class HeadOrder(Protocol):
    """The heads of a cycle, at most one a queue."""

    def enter(self, head: Head) -> None:
        """It is a head from now on."""

    def again(self, head: Head) -> None:
        """It was next and is not settled: it has its turn again."""

    def leave(self, head: Head) -> None:
        """It is settled. A queue that was requeued in this cycle may have no head here, only a gang that starts."""

    def next(self) -> Head | None:
        """Whose turn it is."""

    def yields(self, head: Head, level: int) -> bool:
        """It borrows as far as `level`: whether others may come first; then it has queued up again."""

    def taken(self, queue: str) -> None:
        """Usage of the queue has grown: its relatives may do better or worse than they thought."""

    def __len__(self) -> int:
        """How many heads there are."""


class ClassicalOrder:
    """By borrowing, priority and age. `leaving`: whether workloads of that tree (`QuotaTree.tree_of`) are about to leave."""

    def __init__(self, ledger: Ledger, leaving: Callable[[str], bool] = lambda tree: False) -> None:
        self._ledger, self._leaving = ledger, leaving
        self._heads: dict[str, Head] = {}
        self._borrowers: dict[str, Borrowers] = {}
        self._line: list[tuple[int, Order, str]] = []

    def __len__(self) -> int:
        """How many heads there are."""
        return len(self._heads)

    def enter(self, head: Head) -> None:
        """It is a head from now on."""
        self._heads[head.queue] = head
        if head.first is not None:
            head.level = -1
        self.again(head)

    def again(self, head: Head) -> None:
        """It queues up."""
        heappush(self._line, (head.level, head.order, head.queue))

    def leave(self, head: Head) -> None:
        """It is settled."""
        self._heads.pop(head.queue, None)

    def next(self) -> Head | None:
        """The foremost; what became outdated in the line drops out here."""
        while self._line:
            level, order, queue = heappop(self._line)
            head = self._heads.get(queue)
            if head is not None and head.order == order and head.level == level:
                if level > 0 and not self._borrowers_of(queue).current(queue):
                    head.assignment = None
                return head
        return None

    def _borrowers_of(self, queue: str) -> Borrowers:
        return self._borrowers.setdefault(self._ledger.quota.tree_of(queue), Borrowers())

    def yields(self, head: Head, level: int) -> bool:
        """Borrowing further than was thought, it goes behind those that borrow less."""
        if level <= head.level or (head.first is not None and level <= head.first):
            return False
        head.first = None
        head.level = level
        if (node := self._ledger.quota.node(head.queue)) is not None:
            self._borrowers_of(head.queue).add(node, head.workload, head.assignment)
        self.again(head)
        return True

    def taken(self, queue: str) -> None:
        """Less is left for the relatives: one that meant to borrow might now do better in another flavor."""
        tree = self._ledger.quota.tree_of(queue)
        if (borrowers := self._borrowers.get(tree)) is None:
            return
        for name in borrowers.take(queue, leaving=self._leaving(tree)):
            head = self._heads.get(name)
            if head is not None and head.level > 0:
                head.level, head.assignment = 0, None
                self.again(head)


class FairOrder:
    """By fair shares within each tree; between trees, which share no quota, by priority and age.

    `look` finds the head's flavors (kept in it), or leaves it as it is: then its turn comes at once.
    """

    def __init__(self, ledger: Ledger, look: Callable[[Head], None]) -> None:
        self._ledger, self._look = ledger, look
        self._trees: dict[str, dict[str, Head]] = {}
        self._winners: dict[str, Head] = {}

    def __len__(self) -> int:
        """How many heads there are."""
        return sum(map(len, self._trees.values()))

    def enter(self, head: Head) -> None:
        """It is a head from now on."""
        tree = self._ledger.quota.tree_of(head.queue)
        self._trees.setdefault(tree, {})[head.queue] = head
        self._winners.pop(tree, None)

    def again(self, head: Head) -> None:
        """It still is."""
        self._winners.pop(self._ledger.quota.tree_of(head.queue), None)

    def leave(self, head: Head) -> None:
        """It is settled."""
        tree = self._ledger.quota.tree_of(head.queue)
        self._winners.pop(tree, None)
        heads = self._trees.get(tree, {})
        heads.pop(head.queue, None)
        if not heads:
            self._trees.pop(tree, None)

    def next(self) -> Head | None:
        """The foremost of the trees' winners."""
        for tree, heads in self._trees.items():
            if tree not in self._winners:
                self._winners[tree] = self._winner(heads)
        return min(self._winners.values(), key=lambda head: head.order, default=None)

    def _winner(self, heads: dict[str, Head]) -> Head:
        if first := [head for head in heads.values() if head.first is not None]:
            return min(first, key=lambda head: head.order)
        candidates = {}
        for name in sorted(heads):
            head = heads[name]
            if head.assignment is None:
                self._look(head)
            if head.assignment is None:
                return head
            candidates[name] = Nomination(head.workload, head.assignment)
        return heads[winner(candidates, self._ledger).workload.cluster_queue]

    def yields(self, head: Head, level: int) -> bool:
        """How far it borrows has been counted already."""
        head.level = level
        return False

    def taken(self, queue: str) -> None:
        """Forget what was nominated in the tree."""
        tree = self._ledger.quota.tree_of(queue)
        self._winners.pop(tree, None)
        for head in self._trees.get(tree, {}).values():
            head.assignment = None
