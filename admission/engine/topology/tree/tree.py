"""The live tree of one flavor: its domains by level, and the free amounts of each counting row.

A counting row is the unit in which pods are counted. It is a domain of the lowest level (a host, or in Domains counting
the sum of the nodes of a wider domain). In Nodes counting with a lowest level wider than the host, each node is a row, and
the nodes form a hidden level below the lowest. For each row, `free` is allocatable minus foreign pods minus the usage of
admitted workloads, and `used` is that usage; without admitted workloads `free + used` would be free.

The tree is updated incrementally: a node, a pod or an admission changes only its rows. The tree knows no workloads and no
pods: capacity.py applies changes, count.py and place_group.py read the tree. Rules: placement.md 5.1.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Final, Protocol

import numpy as np

from admission.engine.model import HOSTNAME_LABEL, Node, PodFacts
from admission.engine.topology.tree.level import Bools, Ints, Level, grown
from admission.engine.topology.tree.match import Matcher, Wants
from admission.engine.topology.tree.tree_spec import TreeSpec, Values
from admission.engine.topology.usage import LIMIT, Columns, Nodes, UsageTables, Vector

_FEW: Final = 12
"""The number of cells up to which a loop is faster than one operation on arrays."""


class Neighbours(Protocol):
    """The pod terms that restrict a pod's nodes. Implemented by neighbours/placed.py."""

    watching: bool
    """Whether any pod or workload has a term."""

    def open_rows(self, facts: PodFacts | None, tree: Tree, *, empty: bool) -> Bools | None:
        """Returns the mask of rows that such a pod may use; None for all. `empty`: as if no workload were admitted."""

    def closing(self, facts: PodFacts | None, tree: Tree, *, empty: bool) -> Iterator[tuple[str, str, Bools]]:
        """Yields the rows that such a pod may not use, with the kind of term and its topology key."""

    def gathers(self, facts: PodFacts | None, *, empty: bool) -> tuple[str, ...]:
        """Returns the topology keys of which one domain each must hold all pods of such a gang."""

    def keys_apart(self, facts: PodFacts | None) -> list[str]:
        """Returns the topology keys by which the anti-affinity of such pods separates them from each other."""


class Tree:
    """The domains of one flavor, its counting rows with free and used amounts, and the node properties that pods match."""

    def __init__(
        self, shape: TreeSpec, columns: Columns, nodes: Nodes, usage_tables: UsageTables, neighbours: Neighbours
    ) -> None:
        self.shape = shape
        self.by_node = shape.by_host or shape.hidden_nodes
        """Whether a row is a host or node, so that node labels and taints apply to it."""
        self.columns = columns
        self.levels = [Level() for _ in shape.levels]
        self.rows = Level() if shape.hidden_nodes else self.levels[-1]
        self.matcher = Matcher()
        self.row_of_node: dict[str, int] = {}
        self.row_of_host: dict[str, int] = {}
        self._nodes = nodes
        self._usage_tables = usage_tables
        self.neighbours = neighbours
        self.row_changes = 0
        """Grows whenever a host or a node gets another row, or loses its row."""
        self._row_of: dict[Hashable, int] = {}
        self._members: dict[int, list[str]] = {}
        self._free: Ints = np.zeros((4, 16), dtype=np.int64)
        self._used: Ints = np.zeros((4, 16), dtype=np.int64)

    # ---- what can be read

    @property
    def depth(self) -> int:
        """The number of levels that requests can name."""
        return len(self.levels)

    def level_of(self, key: str) -> int | None:
        """Returns the number of the level with that label key, or None."""
        return self.shape.levels.index(key) if key in self.shape.levels else None

    def free(self, column: int) -> Ints | None:
        """Returns the free amounts of the resource by row; None if no row ever had it. A row has all of each exclusive name."""
        if column in self.columns.exclusive:
            self._ensure_column(column)
            return self._free[column, : self.rows.size] + self._has(column)
        return self._free[column, : self.rows.size] if column < len(self._free) else None

    def used(self, column: int) -> Ints:
        """Returns the usage of the resource by admitted workloads, by row."""
        return self._used[column, : self.rows.size]

    def idle(self) -> Bools:
        """Returns the mask of rows on which no admitted workload uses anything."""
        return self.rows.alive & ~self._used[:, : self.rows.size].any(axis=0)

    def free_at(self, row: int, column: int) -> int:
        """Returns the free amount of one resource in one row."""
        own = self._has(column) if column in self.columns.exclusive else 0
        return own + int(self._free[column, row]) if column < len(self._free) else own

    def _has(self, column: int) -> int:
        """Returns how much a row has of the exclusive name: as a node, or LIMIT for a row of several nodes.

        For several nodes it is unknown which of them has the name, so the row limits nothing.
        """
        return self.columns.exclusive[column] if self.by_node and column != self.columns.uncounted else LIMIT

    def usable(self, wants: Wants, *, empty: bool = False) -> Bools | None:
        """Returns the mask of rows that satisfy both node requirements and pod terms; None for all rows.

        With `empty`, pods of admitted workloads are ignored.
        """
        mask = self.matcher.feasible(wants, self.rows.size)
        if wants.facts is None:
            return mask
        near = self.neighbours.open_rows(wants.facts, self, empty=empty)
        return near if mask is None else mask if near is None else mask & near

    def members(self, row: int) -> list[str]:
        """Returns the names of the row's nodes, ascending."""
        return self._members[row]

    def members_now(self, row: int) -> list[str]:
        """Returns the same; empty for a row that no longer exists."""
        return self._members.get(row, [])

    def domain_row(self, values: Values) -> int | None:
        """Returns the slot of the lowest-level domain that an assignment names by these values, or None.

        The values may end with a host below the lowest level.
        """
        return (
            self.row_of_host.get(values[-1]) if self.shape.by_host else self.levels[-1].slots.get(values[: self.depth])
        )

    def rows_named(self, values: Values) -> list[int]:
        """Returns the counting rows that an assignment names by these values; empty if the tree does not have them."""
        if self.shape.hidden_nodes and len(values) > self.depth:
            row = self.row_of_host.get(values[-1])
            return [] if row is None else [row]
        domain = self.domain_row(values)
        return [] if domain is None else self.rows_of_domain(domain)

    def rows_of_domain(self, domain: int) -> list[int]:
        """Returns the counting rows of a lowest-level domain; hidden nodes by name."""
        if not self.shape.hidden_nodes:
            return [domain]
        return self.rows.in_order(self.levels[-1].children[domain])

    def values(self, domain: int) -> Values:
        """Returns the values by which an assignment names a lowest-level domain: the hostname only, or all levels."""
        path = self.levels[-1].paths[domain]
        return path[-1:] if self.shape.by_host else path

    def values_of(self, domains: Iterable[int]) -> list[Values]:
        """Returns the values of these lowest-level domains, in this order."""
        paths = self.levels[-1].paths
        return [paths[domain][-1:] for domain in domains] if self.shape.by_host else [paths[each] for each in domains]

    @property
    def output_levels(self) -> tuple[str, ...]:
        """The label keys of the levels that an assignment names."""
        return self.shape.levels[-1:] if self.shape.by_host else self.shape.levels

    @property
    def host_levels(self) -> tuple[str, ...]:
        """The label keys of an assignment that also names hosts below the lowest level (pins.py)."""
        return (*self.shape.levels, HOSTNAME_LABEL)

    def names(self, levels: tuple[str, ...]) -> bool:
        """Reports whether assignments of this tree may have these levels."""
        return levels == self.output_levels or (self.shape.hidden_nodes and levels == self.host_levels)

    # ---- nodes come and go

    def put(self, name: str) -> None:
        """Adds the node from its record if it belongs to the flavor. It must not be in the tree."""
        node = self._nodes[name].node
        if node is None or not self.shape.accepts(node):
            return
        key = self.shape.row_key(node)
        row = self._row_of.get(key)
        names = [name] if row is None else sorted([*self._members[row], name])
        self._replace(key, row, names)

    def drop(self, name: str) -> None:
        """Removes the node if it is in the tree. Its record must be unchanged since the node was added."""
        row = self.row_of_node.get(name)
        if row is None:
            return
        node = self._node(name)
        names = [other for other in self._members[row] if other != name]
        self._replace(self.shape.row_key(node), row, names)

    def refill(self, name: str) -> bool:
        """Recomputes the row of a node of which only amounts changed. Reports whether the node is in this tree."""
        row = self.row_of_node.get(name)
        if row is not None:
            self._fill(row)
        return row is not None

    def _replace(self, key: Hashable, row: int | None, names: list[str]) -> None:
        """Sets the nodes of the row with this key; the first of them determines the row's path, labels and taints."""
        if row is not None and (not names or self._path(names[0]) != self.rows.paths[row]):
            self._remove_row(key, row)
            row = None
        if not names:
            return
        if row is None:
            row = self._add_row(key, self._path(names[0]))
        self._set_members(row, names)
        self.matcher.set(row, self._node(names[0]) if self.by_node else None)
        self._fill(row)

    def _node(self, name: str) -> Node:
        node = self._nodes[name].node
        if node is None:
            raise KeyError(name)
        return node

    def _path(self, name: str) -> Values:
        path = self.shape.path(self._node(name))
        return (*path, name) if self.shape.hidden_nodes else path

    def _chain(self) -> list[Level]:
        return [*self.levels, self.rows] if self.shape.hidden_nodes else self.levels

    def _add_row(self, key: Hashable, path: Values) -> int:
        slot = 0
        chain = self._chain()
        for depth, level in enumerate(chain):
            prefix = path[: depth + 1]
            slot_of = level.slots.get(prefix)
            if slot_of is None:
                parent, slot_of = slot, level.add(prefix, slot)
                if depth:
                    chain[depth - 1].adopt(parent, slot_of)
            slot = slot_of
        self._row_of[key] = slot
        if self.shape.by_host:
            self.row_of_host[str(key)] = slot
        if slot >= self._free.shape[1]:
            self._free, self._used = _wider(self._free, slot + 1), _wider(self._used, slot + 1)
        return slot

    def _remove_row(self, key: Hashable, row: int) -> None:
        self._set_members(row, [])
        self.matcher.set(row, None)
        self._free[:, row] = self._used[:, row] = 0
        del self._row_of[key]
        if self.shape.by_host:
            del self.row_of_host[str(key)]
        slot: int | None = row
        for depth, level in reversed(list(enumerate(self._chain()))):
            if slot is None:
                return
            parent = int(level.parent[slot])
            level.remove(slot)
            if not depth:
                return
            slot = None if self._chain()[depth - 1].disown(parent, slot) else parent

    def _set_members(self, row: int, names: list[str]) -> None:
        self.row_changes += 1
        for name in self._members.pop(row, []):
            del self.row_of_node[name]
            host = self._hidden_host(name)
            if host is not None and self.row_of_host.get(host) == row:
                del self.row_of_host[host]
        if names:
            self._members[row] = names
        for name in names:
            self.row_of_node[name] = row
            host = self._hidden_host(name)
            if host is not None:
                self.row_of_host.setdefault(host, row)

    def _hidden_host(self, name: str) -> str | None:
        return self._node(name).labels.get(HOSTNAME_LABEL) if self.shape.hidden_nodes else None

    # ---- amounts

    def _fill(self, row: int) -> None:
        free, used = self.expected(row)
        self._free[:, row] = self._used[:, row] = 0
        for column in free.keys() | used.keys():
            self._ensure_column(column)
            self._free[column, row] = free.get(column, 0)
            self._used[column, row] = used.get(column, 0)

    def expected(self, row: int) -> tuple[dict[int, int], dict[int, int]]:
        """Returns (free, used) of a row, each by column, recomputed from the node records and usage tables."""
        used: dict[int, int] = {}
        for usage in self._usages(row):
            for column, amount in usage.items():
                used[column] = used.get(column, 0) + amount
        free = {column: -amount for column, amount in used.items()}
        for name in self._members.get(row, ()):
            record = self._nodes[name]
            for column, amount in record.offers:
                free[column] = free.get(column, 0) + amount
            for column, amount in record.foreign.items():
                free[column] = free.get(column, 0) - amount
        return free, used

    def _usages(self, row: int) -> Iterator[dict[int, int]]:
        names = self._members.get(row, [])
        if not names:
            return
        if not self.by_node:
            yield self._usage_tables.domains.get(self.rows.paths[row], {})
            return
        host = self._node(names[0]).labels.get(HOSTNAME_LABEL)
        if host is not None and self.row_of_host.get(host) == row:
            yield self._usage_tables.hosts.get(host, {})
        for name in names:
            yield self._usage_tables.nodes.get(name, {})

    def shift_free(self, row: int, vector: Vector, sign: int = 1) -> None:
        """Adds the amounts to the row's free amounts (`sign` -1: subtract). Usage stays."""
        for column, amount in vector:
            self._ensure_column(column)
            self._free[column, row] += sign * amount

    def shift_many(self, columns: Ints, rows: Ints, amounts: Ints) -> None:
        """Adds the amounts to the free amounts of these cells; a cell may occur several times. Usage stays."""
        self._ensure_column(int(columns.max()))
        np.add.at(self._free, (columns, rows), amounts)

    def use_many(self, columns: Ints, rows: Ints, amounts: Ints) -> None:
        """Adds the amounts to the usage of these cells and subtracts them from what is free; a cell may occur several times."""
        self._ensure_column(int(columns.max()))
        np.subtract.at(self._free, (columns, rows), amounts)
        np.add.at(self._used, (columns, rows), amounts)

    def use(self, vectors: Sequence[tuple[int, Vector]]) -> None:
        """Adds each row's amounts to its usage and subtracts them from its free amounts; a row may occur several times."""
        cells = [(column, row, amount) for row, vector in vectors for column, amount in vector]
        if len(cells) > _FEW:
            self.use_many(*np.array(cells, dtype=np.int64).T)
            return
        for column, row, amount in cells:
            self._ensure_column(column)
            self._free[column, row] -= amount
            self._used[column, row] += amount

    def _ensure_column(self, column: int) -> None:
        if column >= len(self._free):
            self._free, self._used = _taller(self._free, column + 1), _taller(self._used, column + 1)

    # ---- checks

    def wrong_row(self, row: int) -> Iterator[str]:
        """Yields a message for each deviation of the row from the records; none for a removed row."""
        if row >= self.rows.size or not self.rows.alive[row]:
            return
        free, used = self.expected(row)
        where = "/".join(self.rows.paths[row])
        if not self._members.get(row):
            yield f"{where}: it has no node"
        for array, wanted, word in ((self._free, free, "free"), (self._used, used, "used")):
            for column in range(len(self.columns)):
                have = int(array[column, row]) if column < len(array) else 0
                if have != wanted.get(column, 0):
                    name = self.columns.names[column]
                    yield f"{where}: {word} {name} is {have}, expected {wanted.get(column, 0)}"

    def wrong_node(self, name: str) -> Iterator[str]:
        """Yields a message if the node is missing from its row, in a wrong row, or in the tree although it does not belong."""
        record, row = self._nodes.get(name), self.row_of_node.get(name)
        node = record.node if record is not None else None
        if node is None or not self.shape.accepts(node):
            if row is not None:
                yield f"node {name} is in {'/'.join(self.rows.paths[row])}, and belongs nowhere"
        elif row is None:
            yield f"node {name} is missing"
        elif row != self._row_of.get(self.shape.row_key(node)) or not self._is_first_on_path(row, name):
            yield f"node {name} is not in its domain"

    def _is_first_on_path(self, row: int, name: str) -> bool:
        """Reports whether the node is in the row, and the row has the path of its first node."""
        names = self._members.get(row, [])
        return name in names and self._path(names[0]) == self.rows.paths[row]


def _wider(array: Ints, size: int) -> Ints:
    return grown(array, size).astype(np.int64, copy=False)


def _taller(array: Ints, size: int) -> Ints:
    tall = np.zeros((max(size, 2 * array.shape[0]), array.shape[1]), dtype=np.int64)
    tall[: array.shape[0]] = array
    return tall
