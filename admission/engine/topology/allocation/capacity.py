"""Capacity and usage on the trees of all flavors: nodes, foreign pods, and the usage of admitted workloads.

Every change updates only the rows that it affects and records its inverse in the journal. Flavors whose lowest level is
the host may overlap and share usage by hostname. In Nodes counting every charge lies on a node, so every flavor with
that node includes it. In Domains counting, flavors with a wider lowest level include only their own usage. Rules:
placement.md 5.1.

The `generation` of a flavor increases when its free capacity may have increased. `base_generation` increases whenever
nodes, foreign pods or trees change, or such a change is rolled back. allocations.py decides what is charged.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from itertools import chain, count
from typing import Final, NamedTuple, TypeVar

from admission.engine.journal import Journal
from admission.engine.model import HOSTNAME_LABEL, Amounts, Counting, Flavor, Node, PlacementOptions
from admission.engine.topology.neighbours.placed import PlacedPods
from admission.engine.topology.tree.tree import Tree
from admission.engine.topology.tree.tree_spec import TreeSpec, Values
from admission.engine.topology.usage import (
    Columns,
    NodeRecord,
    UsageTable,
    UsageTables,
    Vector,
    add,
    add_usage,
    times,
)

T = TypeVar("T")

_OFFERED: Final = 4096
"""Limit of the cache of node sizes; the nodes of a cluster rarely have more distinct sizes."""

_PART: Final = 500
"""Rows or nodes that an audit checks in one step of a few milliseconds, so that it never holds the event loop."""


@dataclass(slots=True)
class Touched:
    """The changes since a moment: charged spots as (id of the usage table, key), and nodes whose foreign pods changed."""

    spots: set[tuple[int, Hashable]] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)


class SpotKind(Enum):
    """The kind of object that is charged."""

    HOST = "host"
    NODE = "node"
    DOMAIN = "domain"


class Spot(NamedTuple):
    """A host, node or domain that can be charged. `key` is one hostname or node name, or a domain's values, widest first."""

    kind: SpotKind
    flavor: str
    key: Values


class Capacity:
    """The trees of all flavors over one set of nodes, with the usage tables that they are charged from.

    `unusable` are the nodes that are cordoned or not Ready, which are in no tree.
    """

    def __init__(self, options: PlacementOptions, journal: Journal) -> None:
        self.columns = Columns()
        self.trees: dict[str, Tree] = {}
        self._growing: dict[str, Tree] = {}
        self.nodes: dict[str, NodeRecord] = {}
        self.unusable: dict[str, Node] = {}
        self._options = options
        self._journal = journal
        self._usage_tables: dict[str, UsageTables] = {}
        self._shared = UsageTables()
        self._generations: dict[str, int] = {}
        # Shared by all flavors, so that a flavor that is removed and made again never has a number that it had before.
        self._numbers = count(1)
        self._offered: dict[Vector, Vector] = {}
        self._touched: list[Touched] = []
        self.base_generation = self.openings = 0
        self.placed = PlacedPods(self.trees, self._all_nodes, journal)
        self.placed.opened = self._all_capacity_freed

    def generations(self) -> dict[str, int]:
        """Returns the generation of every flavor."""
        return dict(self._generations)

    def keep_generations(self, generations: Mapping[str, int]) -> None:
        """Restores generations that were read before. The caller has used again all capacity that was freed since then."""
        for flavor in self._generations.keys() | generations.keys():
            if flavor in generations:
                self._journal.put(self._generations, flavor, generations[flavor])
            else:
                self._journal.drop(self._generations, flavor)

    def generation(self, flavor: str) -> int:
        """Returns a number that increases whenever the flavor's free capacity may have increased."""
        return self._generations.get(flavor, 0)

    def capacity_freed(self, flavor: str) -> None:
        """Gives the flavor a new generation."""
        self._journal.put(self._generations, flavor, next(self._numbers))

    def _all_capacity_freed(self) -> None:
        self.openings += 1
        self._base_changed()
        for flavor in self.trees:
            self.capacity_freed(flavor)

    def _base_changed(self) -> None:
        self.base_generation += 1

    # ---- flavors

    def new_shape(self, flavor: Flavor) -> TreeSpec | None:
        """Returns the shape of the tree that the flavor needs instead of the one in force; None if it needs no other."""
        shape, old = TreeSpec.of(flavor, self._options.counting), self.trees.get(flavor.name)
        return None if old is not None and old.shape == shape else shape

    def grow(self, name: str, shape: TreeSpec) -> Generator[None, None, Tree | None]:
        """Builds a tree for the flavor beside the one in force, a node a step, and returns it for `set_flavor`; None after
        `stop_growing`. A change between two steps reaches both trees.
        """
        tree = self._growing[name] = self._empty_tree(name, shape)
        try:
            for node in tuple(self.nodes):
                if node in self.nodes and node not in tree.row_of_node:
                    tree.put(node)
                yield
                if self._growing.get(name) is not tree:
                    return None
            return tree
        finally:
            if self._growing.get(name) is tree:
                del self._growing[name]

    def stop_growing(self, name: str) -> None:
        """Drops the tree that grows for the flavor, if any: a later change has overtaken it."""
        self._growing.pop(name, None)

    def set_flavor(self, name: str, flavor: Flavor | None, grown: Tree | None) -> bool:
        """Sets the flavor (None: remove it), with its new tree if its levels or node labels changed, which it reports."""
        self.capacity_freed(name)
        self._journal.record(self._base_changed)
        self._base_changed()
        if grown is not None:
            self._journal.put(self.trees, name, grown)
        elif flavor is None or not flavor.levels:
            self._journal.drop(self.trees, name)
            self._journal.drop(self._generations, name)
            self._forget_unused_tables(name)
        return grown is not None

    def _empty_tree(self, name: str, shape: TreeSpec) -> Tree:
        return Tree(shape, self.columns, self.nodes, self.usage_tables(name), self.placed)

    def _kept_trees(self) -> Iterator[Tree]:
        """Yields the trees that follow every change: those in force, and those that grow."""
        yield from self.trees.values()
        yield from self._growing.values()

    def usage_tables(self, flavor: str) -> UsageTables:
        """Returns the usage tables of the flavor's tree, created on first use."""
        own = self._usage_tables.get(flavor)
        if own is None:
            own = (
                UsageTables(self._shared.hosts, self._shared.nodes)
                if self._options.overlapping_flavors
                else UsageTables()
            )
            self._usage_tables[flavor] = own
        return own

    def _forget_unused_tables(self, flavor: str) -> None:
        """Drops the usage tables of a removed flavor once no admission is charged there."""
        own = self._usage_tables.get(flavor)
        if flavor in self.trees or own is None or own.domains:
            return
        if self._options.overlapping_flavors or not (own.hosts or own.nodes):
            self._journal.drop(self._usage_tables, flavor)

    # ---- nodes and foreign pods

    def inputs(self) -> Iterator[Node]:
        """Returns the known nodes, by name."""
        return (record.node for _, record in sorted(self.nodes.items()) if record.node is not None)

    def _all_nodes(self) -> Iterator[Node]:
        """Yields the nodes that are known at the call, each as it is at its turn."""
        for name in list(self.nodes):
            record = self.nodes.get(name)
            if record is not None and record.node is not None:
                yield record.node

    def set_node(self, name: str, node: Node | None) -> bool:
        """Sets the node (None: remove it). Reports whether more than its amounts changed: it was added, removed or relabelled,
        or its taints or readiness changed.
        """
        record = self.nodes.get(name)
        old = None if record is None else record.node
        if old == node:
            return False
        self._journal.record(partial(self._set_node, name, old))
        self._set_node(name, node)
        for flavor, tree in self.trees.items():
            if name in tree.row_of_node:
                self.capacity_freed(flavor)
        return not _same_but_amounts(old, node)

    def _set_node(self, name: str, node: Node | None) -> None:
        self._base_changed()
        record = self._record_of(name)
        only_amounts, old = _same_but_amounts(record.node, node), record.node
        if not only_amounts:
            for tree in self._kept_trees():
                tree.drop(name)
        record.node = node
        if node is None or node.usable:
            self.unusable.pop(name, None)
        else:
            self.unusable[name] = node
        record.offers = () if node is None else self._offers(node.allocatable)
        for tree in self._kept_trees():
            if only_amounts:
                tree.refill(name)
            else:
                tree.put(name)
        if not only_amounts:
            self.placed.node_set(name, old, node)
        self._forget_if_empty(name)

    def _offers(self, allocatable: Amounts) -> Vector:
        """Returns the amounts by column. Nodes of the same size share one vector."""
        vector = self.columns.vector(allocatable)
        if len(self._offered) > _OFFERED:
            self._offered.clear()
        return self._offered.setdefault(vector, vector)

    def _record_of(self, name: str) -> NodeRecord:
        record = self.nodes.get(name)
        if record is None:
            record = self.nodes[name] = NodeRecord()
        return record

    def _forget_if_empty(self, name: str) -> None:
        record = self.nodes[name]
        if record.node is None and not record.foreign:
            del self.nodes[name]

    def add_foreign(self, name: str, vector: Vector, count: int = 1) -> None:
        """Adds `count` foreign pods that use `vector` each to the node (negative: remove them)."""
        amount = times(vector, count)
        if self._journal.recording:
            self._journal.record(partial(self._add_foreign, name, times(amount, -1)))
        self._add_foreign(name, amount)
        if count < 0:
            for flavor, tree in self.trees.items():
                if name in tree.row_of_node:
                    self.capacity_freed(flavor)

    def _add_foreign(self, name: str, vector: Vector) -> None:
        self._base_changed()
        for touched in self._touched:
            touched.nodes.add(name)
        add(self._record_of(name).foreign, vector)
        for tree in self._kept_trees():
            row = tree.row_of_node.get(name)
            if row is not None:
                tree.shift_free(row, vector, -1)
        self._forget_if_empty(name)

    def domain_of(self, name: str, levels: tuple[str, ...]) -> Values | None:
        """Returns the node's values of these levels, or None if a label is missing.

        An unknown node is assumed to have its name as hostname.
        """
        record = self.nodes.get(name)
        node = None if record is None else record.node
        if node is None:
            return (name,) if levels == (HOSTNAME_LABEL,) else None
        labels = node.labels
        values = [labels[level] for level in levels if level in labels]
        return tuple(values) if len(values) == len(levels) else None

    # ---- usage of admitted workloads

    def charge(self, spot: Spot, vector: Vector, count: int) -> None:
        """Charges `count` pods that use `vector` each to the spot (negative: release them)."""
        self.charge_all([(spot, vector, count)])

    def charge_all(self, pods: Iterable[tuple[Spot, Vector, int]]) -> None:
        """Charges pods to spots, to each so many that use the vector each; a negative number releases them, at every spot."""
        amounts, freed = list[tuple[Spot, Vector]](), False
        for spot, vector, number in pods:
            if number:
                amounts.append((spot, times(vector, number)))
                freed = number < 0
        if not amounts:
            return
        if self._journal.recording:
            self._journal.record(partial(self._uncharge, amounts))
        self._charge(amounts, freed=freed)

    def _uncharge(self, amounts: Sequence[tuple[Spot, Vector]]) -> None:
        self._charge([(spot, times(vector, -1)) for spot, vector in amounts])

    def _charge(self, amounts: Sequence[tuple[Spot, Vector]], *, freed: bool = False) -> None:
        rows: dict[Tree, list[tuple[int, Vector]]] = {}
        for spot, vector in amounts:
            table, key = self.usage_table(spot), usage_key(spot)
            add_usage(table, key, vector)
            for touched in self._touched:
                touched.spots.add((id(table), key))
            for flavor, tree in self._seen_by(spot):
                if (row := _row(tree, spot)) is not None:
                    rows.setdefault(tree, []).append((row, vector))
                    if freed:
                        self.capacity_freed(flavor)
        for flavor in dict.fromkeys(spot.flavor for spot, _ in amounts):
            self._forget_unused_tables(flavor)
        for tree, vectors in rows.items():
            tree.use(vectors)

    def assume(self, spot: Spot, vector: Vector, count: int) -> None:
        """Subtracts `count` pods from free amounts only, for pod sets that are placed in the same call. Usage stays."""
        amount = times(vector, -count)
        for _, tree, row in list(self._rows(spot)):
            self._journal.record(partial(tree.shift_free, row, amount, -1))
            tree.shift_free(row, amount)

    def usage_table(self, spot: Spot) -> UsageTable:
        """Returns the usage table of the spot."""
        usage_tables = self.usage_tables(spot.flavor)
        match spot.kind:
            case SpotKind.HOST:
                return usage_tables.hosts
            case SpotKind.NODE:
                return usage_tables.nodes
            case SpotKind.DOMAIN:
                return usage_tables.domains

    def row(self, flavor: str, spot: Spot) -> int | None:
        """Returns the row of the flavor's tree that a charge of the spot would change, or None.

        Spots of flavor "" belong to foreign pods.
        """
        shared = spot.kind is not SpotKind.DOMAIN and self._options.overlapping_flavors
        return _row(self.trees[flavor], spot) if shared or spot.flavor in ("", flavor) else None

    def _rows(self, spot: Spot) -> Iterator[tuple[str, Tree, int]]:
        for flavor, tree in self._seen_by(spot):
            row = _row(tree, spot)
            if row is not None:
                yield flavor, tree, row

    def _seen_by(self, spot: Spot) -> Iterator[tuple[str, Tree]]:
        if spot.kind is not SpotKind.DOMAIN and self._options.overlapping_flavors:
            yield from self.trees.items()
            yield from self._growing.items()
            return
        for trees in (self.trees, self._growing):
            if spot.flavor in trees:
                yield spot.flavor, trees[spot.flavor]

    def all_usage_tables(self) -> Iterator[tuple[SpotKind, UsageTable]]:
        """Yields every usage table once, also if several flavors share it."""
        shared = {id(table) for table in (self._shared.hosts, self._shared.nodes)}
        yield from ((SpotKind.HOST, self._shared.hosts), (SpotKind.NODE, self._shared.nodes))
        for _, usage_tables in sorted(self._usage_tables.items()):
            own = (
                (SpotKind.HOST, usage_tables.hosts),
                (SpotKind.NODE, usage_tables.nodes),
                (SpotKind.DOMAIN, usage_tables.domains),
            )
            yield from ((kind, table) for kind, table in own if id(table) not in shared)

    @property
    def by_node(self) -> bool:
        """Reports whether flavors with a lowest level wider than the host count node by node (Nodes counting)."""
        return self._options.counting is Counting.NODES

    @contextmanager
    def touching(self) -> Iterator[Touched]:
        """Collects the spots and nodes that are charged during the context.

        A sum that was computed in several steps meanwhile is not reliable for these.
        """
        touched = Touched()
        self._touched.append(touched)
        try:
            yield touched
        finally:
            self._touched.remove(touched)

    def differences(self) -> Iterator[list[str]]:
        """Yields lists of deviations of the trees from the usage tables. State may change between two lists."""
        for name, tree in sorted(self.trees.items()):
            for rows in parts(tree.rows.ids().tolist(), _PART):
                yield self._differences_of(name, tree, chain.from_iterable(map(tree.wrong_row, rows)))
            for nodes in parts(sorted(self.nodes.keys() | tree.row_of_node.keys()), _PART):
                yield self._differences_of(name, tree, chain.from_iterable(map(tree.wrong_node, nodes)))

    def _differences_of(self, name: str, tree: Tree, texts: Iterable[str]) -> list[str]:
        return [f"flavor {name}: {text}" for text in texts] if self.trees.get(name) is tree else []


def parts(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yields the items in parts of at most `size`."""
    return (items[first : first + size] for first in range(0, len(items), size))


def usage_key(spot: Spot) -> str | Values:
    """Returns the key of the spot in its usage table."""
    return spot.key if spot.kind is SpotKind.DOMAIN else spot.key[-1]


def _row(tree: Tree, spot: Spot) -> int | None:
    match spot.kind:
        case SpotKind.HOST:
            return tree.row_of_host.get(spot.key[-1])
        case SpotKind.NODE:
            return tree.row_of_node.get(spot.key[-1])
        case SpotKind.DOMAIN:
            return None if tree.by_node else tree.levels[-1].slots.get(spot.key)


def _same_but_amounts(old: Node | None, new: Node | None) -> bool:
    return (
        old is not None
        and new is not None
        and old.usable == new.usable
        and old.labels == new.labels
        and old.taints == new.taints
    )
