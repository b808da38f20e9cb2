"""What runs where: the pods and amounts of each workload by row of a tree, kept as workloads change.

A row is named by a `Spot` of its own kind: a hostname, a node's name, or the values of a domain that is charged as a whole.
Capacity that is held for others (engine/ledger/holds.py) is charged like a workload, under a key of its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Final

from admission.engine.ledger.ledger import Ledger
from admission.engine.topology.allocation.entries import EntryUsage, by_host
from admission.engine.topology.usage import Vector

HOST, NODE, DOMAIN = "host", "node", "domain"
Row = tuple[str, Hashable]
"""The kind and name of a row: (HOST, hostname), (NODE, name), (DOMAIN, (flavor, values))."""


@dataclass(frozen=True, slots=True)
class Run:
    """Pods of one workload in one row, and what they use together, by column."""

    pods: int
    amounts: dict[int, int]


_NOTHING: Final[dict[str, Run]] = {}


class Placements:
    """Runs by row and workload. `refresh` must be called with each workload whose admission or pods changed."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._rows: dict[Row, dict[str, Run]] = {}
        self._of: dict[str, tuple[Row, ...]] = {}
        self._held: frozenset[str] = frozenset()

    def on(self, row: Row) -> dict[str, Run]:
        """Returns what runs in a row and what is held there, by key. Read only."""
        return self._rows.get(row, _NOTHING)

    def is_held(self, key: str) -> bool:
        """Reports whether capacity under this key is held for others."""
        return key in self._held

    def refresh(self, workloads: Iterable[str]) -> set[Row]:
        """Reads these workloads and all held capacity again. Returns the rows that they use or used."""
        held = frozenset(self._ledger.holds.keys)
        keys = {*workloads, *held, *self._held}
        self._held = held
        touched: set[Row] = set()
        for key in keys:
            touched.update(self._drop(key))
            touched.update(self._add(key))
        return touched

    def _drop(self, key: str) -> tuple[Row, ...]:
        rows = self._of.pop(key, ())
        for row in rows:
            runs = self._rows[row]
            runs.pop(key, None)
            if not runs:
                del self._rows[row]
        return rows

    def _add(self, key: str) -> tuple[Row, ...]:
        allocation = self._ledger.allocations.by_workload.get(key)
        if allocation is None:
            return ()
        runs: dict[Row, Run] = {}
        for entry in allocation.entries.values():
            for row, pods in self._spread(entry):
                before = runs.get(row)
                amounts = dict(before.amounts) if before else {}
                _add(amounts, entry.vector, pods)
                runs[row] = Run(pods + (before.pods if before else 0), amounts)
        for row, run in runs.items():
            self._rows.setdefault(row, {})[key] = run
        self._of[key] = tuple(runs)
        return self._of[key]

    def _spread(self, entry: EntryUsage) -> Iterable[tuple[Row, int]]:
        if not entry.by_node:
            row: Row = (HOST, entry.values[-1]) if by_host(entry.levels) else (DOMAIN, (entry.flavor, entry.values))
            return ((row, entry.count),)
        pods, nodes = self._ledger.allocations.pods, dict(entry.assumed)
        for pod in entry.covered:
            nodes[pods[pod].node] = nodes.get(pods[pod].node, 0) + 1
        return [((NODE, node), count) for node, count in nodes.items()]


def _add(into: dict[int, int], vector: Vector, count: int) -> None:
    for column, amount in vector:
        into[column] = into.get(column, 0) + amount * count
