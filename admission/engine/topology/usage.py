"""What the trees share: columns for resources, a record of each node, and usage tables by host, node or domain.

Plain records. tree.py computes over domains; allocations.py defines what is charged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from zlib import crc32

from admission.engine.model import EXCLUSIVE_PREFIXES, HOST_PORT, Amounts, Node

Vector = tuple[tuple[int, int], ...]
"""Amounts by column."""

LIMIT = 1 << 55
"""No node has more of anything; larger numbers come from wrong input and must not overflow an int64."""


_OWN, _SHARED, _KEPT = 256, 64, 4096
"""Exclusive names with a column of their own, and columns that all further host ports share; further names that are
remembered. Any user writes such names."""

_UNCOUNTED = "pod anti-affinity that is not counted"


class Columns:
    """A number for each resource name, assigned on first use, the same for all trees.

    What only one pod of a node can have (model.EXCLUSIVE_PREFIXES) is such a name too; `exclusive` has its columns. Of
    more than `_OWN` different ones, further host ports share columns: a free node may then count as taken, but a taken one
    never counts as free. Further anti-affinity terms are often unique to a job, so sharing would refuse free nodes to jobs
    that have nothing in common: they all go to the column `uncounted`, which limits nothing.
    """

    def __init__(self) -> None:
        self.index: dict[str, int] = {}
        self.names: list[str] = []
        self.exclusive: set[int] = set()
        self.uncounted: int | None = None
        self._further: deque[str] = deque()

    def __len__(self) -> int:
        return len(self.names)

    def of(self, resource: str) -> int:
        """Returns the resource's column."""
        column = self.index.get(resource)
        if column is None and resource.startswith(EXCLUSIVE_PREFIXES):
            return self._exclusive(resource)
        if column is None:
            column = self.index[resource] = len(self.names)
            self.names.append(resource)
        return column

    def _exclusive(self, name: str) -> int:
        if len(self.exclusive) < _OWN:
            return self._added(name)
        if name.startswith(HOST_PORT):
            column = self._added(f"{HOST_PORT}shared {crc32(name.encode()) % _SHARED}")
        else:
            column = self.uncounted = self._added(_UNCOUNTED)
        self.index[name] = column  # until as many others came: a request asks `of` before it is counted
        self._further.append(name)
        if len(self._further) > _KEPT:
            self.index.pop(self._further.popleft(), None)
        return column

    def _added(self, name: str) -> int:
        column = self.index.get(name)
        if column is None:
            column = self.index[name] = len(self.names)
            self.names.append(name)
            self.exclusive.add(column)
        return column

    def vector(self, amounts: Amounts) -> Vector:
        """Returns the amounts by column, capped so that sums cannot overflow."""
        return tuple([(self.of(name), max(-LIMIT, min(amount, LIMIT))) for name, amount in amounts.items()])


def times(vector: Vector, count: int) -> Vector:
    """Returns the vector `count` times."""
    if count == 1:
        return vector
    return tuple([(column, max(-LIMIT, min(amount * count, LIMIT))) for column, amount in vector])


def add(into: dict[int, int], vector: Vector) -> None:
    """Add in place; entries that become zero are removed."""
    for column, amount in vector:
        total = into.get(column, 0) + amount
        if total:
            into[column] = total
        else:
            into.pop(column, None)


@dataclass(slots=True)
class NodeRecord:
    """A node by name: the object (None: not seen, or gone), what it offers, and what foreign pods use of it."""

    node: Node | None = None
    offers: Vector = ()
    foreign: dict[int, int] = field(default_factory=dict)


UsageTable = dict[Hashable, dict[int, int]]
"""Usage of admitted workloads by key: a hostname, a node's name, or a domain's values."""


def add_usage(table: UsageTable, key: Hashable, vector: Vector) -> None:
    """Add to the key's usage; an empty entry is removed."""
    entry = table.setdefault(key, {})
    add(entry, vector)
    if not entry:
        del table[key]


@dataclass(slots=True)
class UsageTables:
    """The usage tables that one tree's rows are charged from."""

    hosts: UsageTable = field(default_factory=dict)
    nodes: UsageTable = field(default_factory=dict)
    domains: UsageTable = field(default_factory=dict)


Nodes = Mapping[str, NodeRecord]
