"""All that offers and takes room: nodes, foreign pods, usage of admitted workloads, on the trees of all flavors at once.

Every change is applied to the few rows that it touches, and leaves its inverse in the journal. Flavors whose lowest level
is the host share usage by hostname (they may overlap); in Nodes counting every charge lies on a node and so is seen by
every flavor over that node; in Domains counting wider flavors only know their own usage (placement.md 5.1).
`generation` of a flavor grows when its capacity may have grown; `ground` with every change of what there would be without
admitted workloads (nodes, foreign pods, trees), and when such a change is taken back. Which workload charges what is decided
in booking.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from itertools import chain
from typing import Final, TypeVar

from admission.engine.model import HOSTNAME_LABEL, Amounts, Counting, Flavor, Node, PlacementOptions
from admission.engine.topology.tree.tree import Shape, Tree, Values
from admission.engine.topology.usage import (
    Book,
    Columns,
    NodeBook,
    UsageTables,
    Vector,
    add,
    book_add,
    times,
)
from admission.engine.trial import Journal

T = TypeVar("T")

_OFFERED: Final = 4096
"""Kinds of nodes; more only cost memory."""

_PART: Final = 500
"""Rows or nodes that are checked without a pause: some milliseconds."""


class Kind(Enum):
    """What a charge lies on."""

    HOST = "host"
    NODE = "node"
    DOMAIN = "domain"


@dataclass(frozen=True, slots=True)
class Spot:
    """A place that can be charged. `key`: one hostname or node name, or a domain's values, widest first."""

    kind: Kind
    flavor: str
    key: Values


class Capacity:
    """Trees by flavor over one set of nodes."""

    def __init__(self, options: PlacementOptions, journal: Journal) -> None:
        self.columns = Columns()
        self.trees: dict[str, Tree] = {}
        self.nodes: dict[str, NodeBook] = {}
        self._options = options
        self._journal = journal
        self._usage_tables: dict[str, UsageTables] = {}
        self._shared = UsageTables()
        self._generations: dict[str, int] = {}
        self._offered: dict[Vector, Vector] = {}
        self.ground = 0

    def generations(self) -> dict[str, int]:
        """Of all flavors."""
        return dict(self._generations)

    def keep_generations(self, generations: Mapping[str, int]) -> None:
        """What was freed since had only been taken since: nobody has more room than when these were read."""
        for flavor in self._generations.keys() | generations.keys():
            if flavor in generations:
                self._journal.put(self._generations, flavor, generations[flavor])
            else:
                self._journal.drop(self._generations, flavor)

    def generation(self, flavor: str) -> int:
        """Grows when the flavor's capacity may have grown."""
        return self._generations.get(flavor, 0)

    def _grew(self, flavor: str) -> None:
        self._journal.put(self._generations, flavor, self.generation(flavor) + 1)

    def _disturb(self) -> None:
        self.ground += 1

    # ---- flavors

    def set_flavor(self, name: str, flavor: Flavor | None) -> bool:
        """The flavor is now this (None: gone). True: its tree was built anew (levels or node labels changed)."""
        shape = None if flavor is None else Shape.of(flavor, self._options.counting)
        old = self.trees.get(name)
        self._grew(name)
        self._journal.record(self._disturb)
        self._disturb()
        if shape is None:
            self._journal.drop(self.trees, name)
        elif old is None or old.shape != shape:
            self._journal.put(self.trees, name, self._planted(name, shape))
            return True
        return False

    def _planted(self, name: str, shape: Shape) -> Tree:
        tree = Tree(shape, self.columns, self.nodes, self.usage_tables(name))
        for node in self.nodes:
            tree.put(node)
        return tree

    def usage_tables(self, flavor: str) -> UsageTables:
        """The books that the flavor's rows are charged from."""
        own = self._usage_tables.get(flavor)
        if own is None:
            own = (
                UsageTables(self._shared.hosts, self._shared.nodes)
                if self._options.overlapping_flavors
                else UsageTables()
            )
            self._usage_tables[flavor] = own
        return own

    # ---- nodes and foreign pods

    def inputs(self) -> Iterator[Node]:
        """The nodes that were told, by name."""
        return (book.node for _, book in sorted(self.nodes.items()) if book.node is not None)

    def set_node(self, name: str, node: Node | None) -> bool:
        """The node is now this (None: gone). True: it came, went or moved; False: at most its amounts changed."""
        book = self.nodes.get(name)
        old = None if book is None else book.node
        if old == node:
            return False
        self._journal.record(partial(self._set_node, name, old))
        self._set_node(name, node)
        for flavor, tree in self.trees.items():
            if name in tree.row_of_node:
                self._grew(flavor)
        return not _same_but_amounts(old, node)

    def _set_node(self, name: str, node: Node | None) -> None:
        self._disturb()
        book = self._book_of(name)
        only_amounts = _same_but_amounts(book.node, node)
        if not only_amounts:
            for tree in self.trees.values():
                tree.drop(name)
        book.node = node
        book.offers = () if node is None else self._offers(node.allocatable)
        for tree in self.trees.values():
            if only_amounts:
                tree.refill(name)
            else:
                tree.put(name)
        self._forget_if_empty(name)

    def _offers(self, allocatable: Amounts) -> Vector:
        """By column; nodes that offer the same share it."""
        vector = self.columns.vector(allocatable)
        if len(self._offered) > _OFFERED:
            self._offered.clear()
        return self._offered.setdefault(vector, vector)

    def _book_of(self, name: str) -> NodeBook:
        book = self.nodes.get(name)
        if book is None:
            book = self.nodes[name] = NodeBook()
        return book

    def _forget_if_empty(self, name: str) -> None:
        book = self.nodes[name]
        if book.node is None and not book.foreign:
            del self.nodes[name]

    def add_foreign(self, name: str, vector: Vector, count: int = 1) -> None:
        """`count` foreign pods of this size came onto the node (negative: went)."""
        amount = times(vector, count)
        if self._journal.recording:
            self._journal.record(partial(self._add_foreign, name, times(amount, -1)))
        self._add_foreign(name, amount)
        if count < 0:
            for flavor, tree in self.trees.items():
                if name in tree.row_of_node:
                    self._grew(flavor)

    def _add_foreign(self, name: str, vector: Vector) -> None:
        self._disturb()
        add(self._book_of(name).foreign, vector)
        for tree in self.trees.values():
            row = tree.row_of_node.get(name)
            if row is not None:
                tree.shift_free(row, vector, -1)
        self._forget_if_empty(name)

    def domain_of(self, name: str, levels: tuple[str, ...]) -> Values | None:
        """The domain of a node under these levels. A node that is not known yet is taken to bear its name as hostname."""
        book = self.nodes.get(name)
        node = None if book is None else book.node
        if node is None:
            return (name,) if levels == (HOSTNAME_LABEL,) else None
        if any(level not in node.labels for level in levels):
            return None
        return tuple(node.labels[level] for level in levels)

    # ---- usage of admitted workloads

    def charge(self, spot: Spot, vector: Vector, count: int) -> None:
        """`count` pods of this size take their place (negative: leave it)."""
        if count:
            amount = times(vector, count)
            if self._journal.recording:
                self._journal.record(partial(self._charge, spot, vector if count == -1 else times(amount, -1)))
            self._charge(spot, amount, grew=count < 0)

    def _charge(self, spot: Spot, vector: Vector, *, grew: bool = False) -> None:
        book_add(self.book(spot), book_key(spot), vector)
        for flavor, tree, row in self._rows(spot):
            tree.shift_used(row, vector)
            if grew:
                self._grew(flavor)

    def assume(self, spot: Spot, vector: Vector, count: int) -> None:
        """As `charge`, but only what is free changes: for pod sets that are placed together in one question."""
        amount = times(vector, -count)
        for _, tree, row in list(self._rows(spot)):
            self._journal.record(partial(tree.shift_free, row, amount, -1))
            tree.shift_free(row, amount)

    def book(self, spot: Spot) -> Book:
        """Where the spot's usage is written."""
        usage_tables = self.usage_tables(spot.flavor)
        match spot.kind:
            case Kind.HOST:
                return usage_tables.hosts
            case Kind.NODE:
                return usage_tables.nodes
            case Kind.DOMAIN:
                return usage_tables.domains

    def row(self, flavor: str, spot: Spot) -> int | None:
        """The row of the flavor's tree that a charge of the spot would touch. A spot of no flavor ("") is a foreign pod's."""
        shared = spot.kind is not Kind.DOMAIN and self._options.overlapping_flavors
        return _row(self.trees[flavor], spot) if shared or spot.flavor in ("", flavor) else None

    def _rows(self, spot: Spot) -> Iterator[tuple[str, Tree, int]]:
        for flavor, tree in self._seen_by(spot):
            row = _row(tree, spot)
            if row is not None:
                yield flavor, tree, row

    def _seen_by(self, spot: Spot) -> Iterator[tuple[str, Tree]]:
        if spot.kind is not Kind.DOMAIN and self._options.overlapping_flavors:
            yield from self.trees.items()
        elif spot.flavor in self.trees:
            yield spot.flavor, self.trees[spot.flavor]

    def all_books(self) -> Iterator[tuple[Kind, Book]]:
        """Every book of usage once, whichever flavors share it."""
        shared = {id(book) for book in (self._shared.hosts, self._shared.nodes)}
        yield from ((Kind.HOST, self._shared.hosts), (Kind.NODE, self._shared.nodes))
        for _, usage_tables in sorted(self._usage_tables.items()):
            own = (
                (Kind.HOST, usage_tables.hosts),
                (Kind.NODE, usage_tables.nodes),
                (Kind.DOMAIN, usage_tables.domains),
            )
            yield from ((kind, book) for kind, book in own if id(book) not in shared)

    @property
    def by_node(self) -> bool:
        """Whether wider flavors count node by node."""
        return self._options.counting is Counting.NODES

    def differences(self) -> Iterator[list[str]]:
        """What of the trees does not agree with the books, a part after the other: there may be changes in between."""
        for name, tree in sorted(self.trees.items()):
            for rows in _parts(tree.rows.ids().tolist()):
                yield self._told(name, tree, chain.from_iterable(map(tree.wrong_row, rows)))
            for nodes in _parts(sorted(self.nodes.keys() | tree.row_of_node.keys())):
                yield self._told(name, tree, chain.from_iterable(map(tree.wrong_node, nodes)))

    def _told(self, name: str, tree: Tree, texts: Iterable[str]) -> list[str]:
        return [f"flavor {name}: {text}" for text in texts] if self.trees.get(name) is tree else []


def _parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[first : first + _PART] for first in range(0, len(items), _PART))


def book_key(spot: Spot) -> str | Values:
    """Under what the spot stands in its book."""
    return spot.key if spot.kind is Kind.DOMAIN else spot.key[-1]


def _row(tree: Tree, spot: Spot) -> int | None:
    match spot.kind:
        case Kind.HOST:
            return tree.row_of_host.get(spot.key[-1])
        case Kind.NODE:
            return tree.row_of_node.get(spot.key[-1])
        case Kind.DOMAIN:
            return None if tree.by_node else tree.levels[-1].slots.get(spot.key)


def _same_but_amounts(old: Node | None, new: Node | None) -> bool:
    return (
        old is not None
        and new is not None
        and old.usable == new.usable
        and old.labels == new.labels
        and old.taints == new.taints
    )
