"""The records that all trees share: columns for resources, a record of each node, and usage tables by host, node or domain.

tree.py computes over domains; allocations.py decides what is charged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from zlib import crc32

from admission.engine.model import DISK, EXCLUSIVE_PREFIXES, HOST_ADDRESS, HOST_PORT, Amounts, Node, node_has

Vector = tuple[tuple[int, int], ...]
"""Amounts as (column, amount) pairs."""

LIMIT = 1 << 55
"""Upper limit of every amount. No node has more of anything; larger numbers are wrong input and must not overflow an int64."""


_OWN, _SHARED, _KEPT = 256, 64, 4096
"""Limits for exclusive names, which any user can write: the number with a column of their own, the number of columns that
all further host ports share (as many for addresses, and for disks), and the number of further names whose column is
remembered."""

_UNCOUNTED = "pod anti-affinity that is not counted"


class Columns:
    """Numbers resource names: each name gets a column on first use, the same in all trees.

    Exclusive names (model.EXCLUSIVE_PREFIXES), such as host ports, which only one pod of a node can have, get columns too;
    `exclusive` has these columns, each with what a node has of the name. Beyond `_OWN` exclusive names, further host ports
    share columns: a free node may then count as occupied, but never the reverse; further addresses and disks do too. Further
    anti-affinity terms are often unique to a job, and shared columns would refuse free nodes to unrelated jobs; so they all get
    the column `uncounted`, which limits nothing.
    """

    def __init__(self) -> None:
        self.index: dict[str, int] = {}
        self.names: list[str] = []
        self.exclusive: dict[int, int] = {}
        self.uncounted: int | None = None
        self._further: deque[str] = deque()

    def __len__(self) -> int:
        return len(self.names)

    def of(self, resource: str) -> int:
        """Returns the resource's column, assigned on first use."""
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
        prefix = next((each for each in (HOST_PORT, HOST_ADDRESS, DISK) if name.startswith(each)), None)
        if prefix is not None:
            column = self._added(f"{prefix}shared {crc32(name.encode()) % _SHARED}")
        else:
            column = self.uncounted = self._added(_UNCOUNTED)
        # Forgotten after _KEPT further names; a request calls `of` for its names before they are counted.
        self.index[name] = column
        self._further.append(name)
        if len(self._further) > _KEPT:
            self.index.pop(self._further.popleft(), None)
        return column

    def _added(self, name: str) -> int:
        column = self.index.get(name)
        if column is None:
            column = self.index[name] = len(self.names)
            self.names.append(name)
            self.exclusive[column] = node_has(name)
        return column

    def vector(self, amounts: Amounts) -> Vector:
        """Returns the amounts by column, capped so that sums cannot overflow."""
        columns, amounts_by_column = self.index, []
        for name, amount in amounts.items():
            column = columns.get(name)
            if column is None:
                column = self.of(name)
            amounts_by_column.append((column, amount if -LIMIT <= amount <= LIMIT else max(-LIMIT, min(amount, LIMIT))))
        return tuple(amounts_by_column)


def times(vector: Vector, count: int) -> Vector:
    """Returns the amounts multiplied by `count`, within LIMIT."""
    if count == 1:
        return vector
    return tuple([(column, max(-LIMIT, min(amount * count, LIMIT))) for column, amount in vector])


def add(into: dict[int, int], vector: Vector) -> None:
    """Adds the vector to `into`, in place; entries that become zero are removed."""
    for column, amount in vector:
        total = into.get(column, 0) + amount
        if total:
            into[column] = total
        else:
            into.pop(column, None)


@dataclass(slots=True)
class NodeRecord:
    """The node of one name (None if it does not exist), its allocatable amounts, and the usage of foreign pods."""

    node: Node | None = None
    offers: Vector = ()
    foreign: dict[int, int] = field(default_factory=dict)


UsageTable = dict[Hashable, dict[int, int]]
"""Usage of admitted workloads by key: a hostname, a node's name, or a domain's values."""


def add_usage(table: UsageTable, key: Hashable, vector: Vector) -> None:
    """Adds the vector to the usage of the key; an entry that becomes empty is removed."""
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
