"""What the trees share: columns for resources, a record of each node, and usage tables by host, node or domain.

Plain records. tree.py computes over domains; allocations.py defines what is charged.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from zlib import crc32

from admission.engine.model import EXCLUSIVE_PREFIXES, Amounts, Node

Vector = tuple[tuple[int, int], ...]
"""Amounts by column."""

LIMIT = 1 << 55
"""No node has more of anything; larger numbers come from wrong input and must not overflow an int64."""


_OWN, _SHARED = 256, 64
"""Exclusive names with a column of their own, and columns that all further ones share. Any user writes such names."""


class Columns:
    """A number for each resource name, assigned on first use, the same for all trees.

    What only one pod of a node can have (model.EXCLUSIVE_PREFIXES) is such a name too; `exclusive` has its columns. Beyond
    `_OWN` different ones several names share a column and count as one: a free node may then count as taken, but a taken one
    never counts as free.
    """

    def __init__(self) -> None:
        self.index: dict[str, int] = {}
        self.names: list[str] = []
        self.exclusive: set[int] = set()

    def __len__(self) -> int:
        return len(self.names)

    def of(self, resource: str) -> int:
        """The resource's column."""
        column = self.index.get(resource)
        if column is None and resource.startswith(EXCLUSIVE_PREFIXES):
            return self._exclusive(resource)
        if column is None:
            column = self.index[resource] = len(self.names)
            self.names.append(resource)
        return column

    def _exclusive(self, name: str) -> int:
        shared = name
        if len(self.exclusive) >= _OWN:
            shared = f"{EXCLUSIVE_PREFIXES[0]}shared {crc32(name.encode()) % _SHARED}"
        column = self.index.get(shared)
        if column is None:
            column = self.index[shared] = len(self.names)
            self.names.append(shared)
            self.exclusive.add(column)
        self.index[name] = column
        return column

    def vector(self, amounts: Amounts) -> Vector:
        """The amounts by column, capped so that sums cannot overflow."""
        return tuple([(self.of(name), max(-LIMIT, min(amount, LIMIT))) for name, amount in amounts.items()])


def times(vector: Vector, count: int) -> Vector:
    """The vector `count` times."""
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
