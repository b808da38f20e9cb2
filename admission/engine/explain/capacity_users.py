"""Determines what uses the capacity of given nodes: admitted workloads by their allocations, and foreign bound pods.

Called by flavor_capacity.py and quotas.py. It reads the allocations on one flavor's tree and is built once per explanation,
since it iterates over all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import nsmallest

from admission.engine.explain.explanation import CapacityUser, CapacityUserKind
from admission.engine.ledger.holds import OF_FLAVORS
from admission.engine.ledger.ledger import Ledger
from admission.engine.topology.allocation.entries import EntryUsage, by_host, held
from admission.engine.topology.tree.level import Bools
from admission.engine.topology.tree.tree import Tree
from admission.engine.topology.usage import Vector

TOP = 5
"""The maximum number of users that are named."""


class CapacityUsers:
    """The users of the rows of one tree."""

    def __init__(self, ledger: Ledger, tree: Tree) -> None:
        self._ledger, self._tree = ledger, tree
        self._workloads: list[tuple[int, str, Vector, int]] = []
        self._spares: list[tuple[int, str, Vector, int]] = []
        for key, allocation in ledger.allocations.by_workload.items():
            hold = ledger.holds.get(key)
            spare, owner = hold is not None and hold.kind in OF_FLAVORS, ledger.holds.owner_of(key)
            for entry in allocation.entries.values():
                users, name = (self._spares, entry.flavor) if spare else (self._workloads, owner)
                users += ((row, name, entry.vector, count) for row, count in self._rows(entry))
        rows, belonging = tree.row_of_node, ledger.allocations.slot_of
        self._pods = [
            (row, pod)
            for key, pod in ledger.allocations.pods.items()
            if key not in belonging and (row := rows.get(pod.node)) is not None
        ]

    def _rows(self, entry: EntryUsage) -> Iterator[tuple[int, int]]:
        """Yields (row, pods) of an entry, as far as it is on this tree."""
        tree = self._tree
        if not entry.by_node:
            row = tree.row_of_host.get(entry.values[-1]) if by_host(entry.levels) else tree.domain_row(entry.values)
            if row is not None and (tree.by_node or entry.levels == tree.shape.levels):
                yield row, entry.count
            return
        nodes = dict(entry.assumed)
        for pod in entry.covered:
            node = self._ledger.allocations.pods[pod].node
            nodes[node] = nodes.get(node, 0) + 1
        for node, count in nodes.items():
            row = tree.row_of_node.get(node)
            if row is not None:
                yield row, count

    def most(self, rows: Bools, resource: str) -> tuple[CapacityUser, ...]:
        """Returns the workloads and pods that use most of the resource on these rows."""
        column = self._ledger.capacity.columns.index.get(resource, -1)
        all_users = [
            CapacityUser(kind, name, amounts[column])
            for kind, users in (
                (CapacityUserKind.WORKLOAD, self._workloads),
                (CapacityUserKind.HELD, self._spares),
            )
            for name, amounts in _amounts(users, rows).items()
            if amounts.get(column)
        ]
        there, columns = rows.tolist(), self._ledger.capacity.columns
        all_users += (
            CapacityUser(CapacityUserKind.POD, pod.key, amount, pod.node)
            for row, pod in self._pods
            if there[row] and (amount := dict(columns.vector(held(pod))).get(column, 0)) > 0
        )
        return most(all_users)

    def amounts(self, rows: Bools) -> dict[str, dict[int, int]]:
        """Returns the usage of each admitted workload on these rows, by column."""
        return _amounts(self._workloads, rows)


def _amounts(users: Iterable[tuple[int, str, Vector, int]], rows: Bools) -> dict[str, dict[int, int]]:
    """Sums the usage on these rows by user and column."""
    amounts: dict[str, dict[int, int]] = {}
    there = rows.tolist()
    for row, key, vector, count in users:
        if there[row]:
            entry = amounts.setdefault(key, {})
            for column, amount in vector:
                entry[column] = entry.get(column, 0) + amount * count
    return amounts


def most(takers: Iterable[CapacityUser]) -> tuple[CapacityUser, ...]:
    """Returns the users with the largest amounts, at most TOP; ties break by name."""
    return tuple(nsmallest(TOP, takers, key=lambda taker: (-taker.amount, taker.name)))
