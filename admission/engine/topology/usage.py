"""What the trees share: columns for resources, a record of each node, and usage tables by host, node or domain.

Plain records. tree.py computes over domains; allocations.py defines what is charged.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from zlib import crc32

from admission.engine.model import HOST_PORT, Amounts, Node

Vector = tuple[tuple[int, int], ...]
"""Amounts by column."""

LIMIT = 1 << 55
"""No node has more of anything; larger numbers come from wrong input and must not overflow an int64."""


_PORTS, _SHARED = 256, 64
"""Host ports with a column of their own, and columns that all further ones share. Names come from what any user writes."""


class Columns:
    """A number for each resource name, assigned on first use, the same for all trees.

    Host ports are such names as well; `ports` has their columns. Beyond some hundred different ones several share a column, and
    count as one port: then a node is thought taken that is not, never the other way round.
    """

    def __init__(self) -> None:
        self.index: dict[str, int] = {}
        self.names: list[str] = []
        self.ports: set[int] = set()

    def __len__(self) -> int:
        return len(self.names)

    def of(self, resource: str) -> int:
        """The resource's column."""
        column = self.index.get(resource)
        if column is None and resource.startswith(HOST_PORT):
            return self._port(resource)
        if column is None:
            column = self.index[resource] = len(self.names)
            self.names.append(resource)
        return column

    def _port(self, name: str) -> int:
        shared = f"{HOST_PORT}shared {crc32(name.encode()) % _SHARED}" if len(self.ports) >= _PORTS else name
        column = self.index.get(shared)
        if column is None:
            column = self.index[shared] = len(self.names)
            self.names.append(shared)
            self.ports.add(column)
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
