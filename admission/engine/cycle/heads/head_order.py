"""The order in which a cycle evaluates the heads of the queues, computed as late as possible.

`ClassicalOrder` puts the head first that borrows least, then the one with the highest priority, then the oldest. The
borrowing level of a head is known only after its flavor search; until then it counts as not borrowing, the lowest level. So
only heads that could be next are evaluated, and a head that turns out to borrow more goes back into the order. After an
admission in its cohort tree a head is evaluated again, unless its answer cannot have changed (borrowers.py).

`FairOrder` orders by fair shares in each cohort tree (tournament.py). Every head of a tree is evaluated, and again after each
admission in the tree that may change its flavors (settled_heads.py). Called by cycle.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Protocol

from admission.engine.cycle.heads.borrowers import Borrowers
from admission.engine.cycle.heads.settled_heads import SettledHeads, independent
from admission.engine.cycle.heads.tournament import Tournament
from admission.engine.cycle.nomination import Nomination
from admission.engine.flavors.assign import FlavorAssignment
from admission.engine.flavors.search import QuotaQueries, Searches
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Workload
from admission.engine.queue.cluster_queue import order_of
from admission.engine.queue.positions import Order


@dataclass(slots=True, eq=False)
class Head:
    """The head of a queue."""

    workload: Workload
    order: Order
    level: int = 0
    """Its borrowing level, or a lower bound of it while there is no assignment."""
    assignment: FlavorAssignment | None = None
    queries: QuotaQueries | None = None
    """What the search of the assignment asked."""
    searches: Searches = field(default_factory=dict)
    """How far that search came, while the quota tree has the number `searched_at` of changes."""
    searched_at: int = -1
    refused: dict[tuple[str, str], str] = field(default_factory=dict)
    """The message of the placement, by pod set and flavor, where the nodes have no capacity."""
    fits_nowhere: bool = True
    """Whether not even empty nodes have capacity."""
    first: int | None = None
    """The head comes before all others without such a level, as long as it borrows no further than this level."""
    settled: bool = False
    """Whether the head has its decision."""
    never_fits: bool = False
    """Whether it is known not to fit even alone."""

    @classmethod
    def of(cls, workload: Workload) -> Head:
        """Returns a head that was not evaluated yet."""
        return cls(workload, order_of(workload))

    @property
    def queue(self) -> str:
        """The name of its ClusterQueue."""
        return self.workload.cluster_queue


class HeadOrder(Protocol):
    """The heads of a cycle, at most one per queue."""

    def enter(self, head: Head) -> None:
        """Adds a head."""

    def again(self, head: Head) -> None:
        """Puts the head that was returned last, and is not settled, back into the order."""

    def leave(self, head: Head) -> None:
        """Removes a settled head.

        A queue that was requeued in this cycle may have no head here while a member of a group starts from it.
        """

    def next(self) -> Head | None:
        """Returns the next head to evaluate; None if there is none."""

    def goes_back(self, head: Head, level: int) -> bool:
        """Reports whether other heads come first now that this head borrows up to `level`; if so, it is back in the order."""

    def usage_grown(self, queue: str) -> None:
        """Records that the usage of the queue has grown: drops the flavors of heads in its tree that may have changed."""

    def __len__(self) -> int:
        """Returns the number of heads."""


class ClassicalOrder:
    """Orders by borrowing level, priority and age. `reserved` reports whether workloads of this tree (`QuotaTree.tree_of`)
    hold capacity reservations, or victims there are about to leave.
    """

    def __init__(self, ledger: Ledger, reserved: Callable[[str], bool] = lambda tree: False) -> None:
        self._ledger, self._reserved = ledger, reserved
        self._heads: dict[str, Head] = {}
        self._borrowers: dict[str, Borrowers] = {}
        self._line: list[tuple[int, Order, str]] = []

    def __len__(self) -> int:
        """Returns the number of heads."""
        return len(self._heads)

    def enter(self, head: Head) -> None:
        """Adds a head."""
        self._heads[head.queue] = head
        if head.first is not None:
            head.level = -1
        self.again(head)

    def again(self, head: Head) -> None:
        """Puts the head back into the order."""
        heappush(self._line, (head.level, head.order, head.queue))

    def leave(self, head: Head) -> None:
        """Removes a settled head."""
        self._heads.pop(head.queue, None)

    def next(self) -> Head | None:
        """Returns the first head, and drops outdated entries before it."""
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

    def goes_back(self, head: Head, level: int) -> bool:
        """Reports whether the head goes back into the order because it borrows more than was known."""
        if level <= head.level or (head.first is not None and level <= head.first):
            return False
        head.first = None
        head.level = level
        if (node := self._ledger.quota.node(head.queue)) is not None:
            self._borrowers_of(head.queue).add(node, head.workload, head.assignment)
        self.again(head)
        return True

    def usage_grown(self, queue: str) -> None:
        """Evaluates the borrowing heads of the tree again: with less quota left they may fit better in another flavor."""
        tree = self._ledger.quota.tree_of(queue)
        if (borrowers := self._borrowers.get(tree)) is None:
            return
        for name in borrowers.take(queue, reserved=self._reserved(tree)):
            head = self._heads.get(name)
            if head is not None and head.level > 0:
                head.level, head.assignment = 0, None
                self.again(head)


@dataclass(slots=True, eq=False)
class _Tree:
    """The heads of one cohort tree. `grown`: usage has grown since the filed heads were looked at."""

    tournament: Tournament
    heads: dict[str, Head] = field(default_factory=dict)
    nominations: dict[str, Nomination] = field(default_factory=dict)
    settled: SettledHeads = field(default_factory=SettledHeads)
    grown: bool = False

    def forget(self, queue: str) -> None:
        """Forgets the flavors of the queue's head."""
        self.settled.discard(queue)
        self.nominations.pop(queue, None)


class FairOrder:
    """Orders by fair shares within each tree. Trees share no quota; between trees it orders by priority and age.

    `find_flavors` finds and keeps the flavors of a head, or leaves the head unchanged; then it comes next at once.
    """

    def __init__(self, ledger: Ledger, find_flavors: Callable[[Head], None]) -> None:
        self._ledger, self._find_flavors = ledger, find_flavors
        self._trees: dict[str, _Tree] = {}
        self._winners: dict[str, Head] = {}
        self._turn: Head | None = None

    def __len__(self) -> int:
        """Returns the number of heads."""
        return sum(len(tree.heads) for tree in self._trees.values())

    def enter(self, head: Head) -> None:
        """Adds a head."""
        name = self._ledger.quota.tree_of(head.queue)
        if name not in self._trees:
            self._trees[name] = _Tree(Tournament(self._ledger))
        tree = self._trees[name]
        tree.forget(head.queue)
        tree.heads[head.queue] = head
        self._winners.pop(name, None)

    def again(self, head: Head) -> None:
        """Drops the winner of the tree; the head is still in the order."""
        self._winners.pop(self._ledger.quota.tree_of(head.queue), None)

    def leave(self, head: Head) -> None:
        """Removes a settled head."""
        name = self._ledger.quota.tree_of(head.queue)
        self._winners.pop(name, None)
        if (tree := self._trees.get(name)) is None:
            return
        tree.forget(head.queue)
        tree.heads.pop(head.queue, None)
        if not tree.heads:
            self._trees.pop(name)

    def next(self) -> Head | None:
        """Returns the first of the winners of all trees."""
        for name, tree in self._trees.items():
            if name not in self._winners:
                self._winners[name] = self._winner(tree)
        self._turn = min(self._winners.values(), key=lambda head: head.order, default=None)
        return self._turn

    def _winner(self, tree: _Tree) -> Head:
        if first := [head for head in tree.heads.values() if head.first is not None]:
            return min(first, key=lambda head: head.order)
        if tree.grown:
            tree.grown = False
            for name in tree.settled.outdated():
                tree.heads[name].assignment = None
        for name in sorted(tree.heads):
            head = tree.heads[name]
            if head.assignment is None:
                tree.forget(name)
                self._find_flavors(head)
                if head.assignment is None:
                    return head
                self._file(tree, head)
            if name not in tree.nominations or tree.nominations[name].assignment is not head.assignment:
                tree.nominations[name] = Nomination(head.workload, head.assignment)
        return tree.heads[tree.tournament.winner(tree.nominations).workload.cluster_queue]

    def _file(self, tree: _Tree, head: Head) -> None:
        node = self._ledger.quota.node(head.queue)
        if node is not None and head.queries is not None and independent(head.workload, self._ledger):
            tree.settled.add(node, head.queries)

    def goes_back(self, head: Head, level: int) -> bool:
        """Returns False always: the tournament has counted the borrowing level already."""
        head.level = level
        return False

    def usage_grown(self, queue: str) -> None:
        """Drops the winner of the tree, and the flavors of its heads that are not filed; the others are looked at later."""
        name = self._ledger.quota.tree_of(queue)
        self._winners.pop(name, None)
        if (tree := self._trees.get(name)) is None:
            return
        tree.grown = True
        if self._turn is not None:
            tree.settled.discard(self._turn.queue)
        for name, head in tree.heads.items():
            if name not in tree.settled:
                head.assignment = None
