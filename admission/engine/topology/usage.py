"""What the trees share: columns for resources, the book of each node, the books of usage by host, node or domain.

Plain records; the arithmetic over many domains is in tree.py, the meaning of the bookings in booking.py.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from admission.engine.model import Amounts, Node

Vector = tuple[tuple[int, int], ...]
"""Amounts by column."""

LIMIT = 1 << 55
"""No node has more of anything; larger numbers only come from wrong input and must not overflow an int64."""


class Columns:
    """A number for each resource name, given at the first sight, for all trees the same."""

    def __init__(self) -> None:
        self.index: dict[str, int] = {}
        self.names: list[str] = []

    def __len__(self) -> int:
        return len(self.names)

    def of(self, resource: str) -> int:
        """The resource's column."""
        column = self.index.get(resource)
        if column is None:
            column = self.index[resource] = len(self.names)
            self.names.append(resource)
        return column

    def vector(self, amounts: Amounts) -> Vector:
        """The amounts by column, clamped to what can be added without overflow."""
        return tuple([(self.of(name), max(-LIMIT, min(amount, LIMIT))) for name, amount in amounts.items()])


def times(vector: Vector, count: int) -> Vector:
    """The vector `count` times."""
    if count == 1:
        return vector
    return tuple([(column, max(-LIMIT, min(amount * count, LIMIT))) for column, amount in vector])


def add(into: dict[int, int], vector: Vector) -> None:
    """Add in place; what becomes zero goes."""
    for column, amount in vector:
        total = into.get(column, 0) + amount
        if total:
            into[column] = total
        else:
            into.pop(column, None)


@dataclass(slots=True)
class NodeBook:
    """A node by name: as it is (None: not seen, or gone), what it offers, and what foreign pods take of it."""

    node: Node | None = None
    offers: Vector = ()
    foreign: dict[int, int] = field(default_factory=dict)


Book = dict[Hashable, dict[int, int]]
"""Usage of admitted workloads by key: a hostname, a node's name, or a domain's values."""


def book_add(book: Book, key: Hashable, vector: Vector) -> None:
    """Add to the key's usage; an empty entry goes."""
    entry = book.setdefault(key, {})
    add(entry, vector)
    if not entry:
        del book[key]


@dataclass(slots=True)
class UsageTables:
    """The books that one tree's rows are charged from."""

    hosts: Book = field(default_factory=dict)
    nodes: Book = field(default_factory=dict)
    domains: Book = field(default_factory=dict)


Nodes = Mapping[str, NodeBook]
