"""Simulates that an admitted workload was evicted and all its pods have ended, and undoes the simulation.

A real release makes pods that are still bound foreign until they end, but the preemption engine needs the capacity after
they have ended. So only amounts change while the allocations stay; the caller does this inside a trial, without an audit
before the trial ends. Unplaced pods of other workloads (assumed.py) do not move into the freed capacity. Called by
ledger.py for the preemption engine.

`PlacementCheck` quickly checks whether a placement found earlier in the same trial still fits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from admission.engine.model import Assignment, PlacementRequest
from admission.engine.topology.allocation.allocations import Allocations
from admission.engine.topology.allocation.capacity import Capacity, Spot, SpotKind
from admission.engine.topology.allocation.entries import EntryUsage, held
from admission.engine.topology.constraints import pod_amounts
from admission.engine.topology.neighbours.counts import on_node
from admission.engine.topology.tree.level import Ints
from admission.engine.topology.tree.tree import Tree
from admission.engine.topology.usage import Vector, times


def shift(allocations: Allocations, capacity: Capacity, key: str, sign: int) -> None:
    """Subtracts the usage of the workload and its bound pods (`sign` -1), or add it again (+1).

    The workload must have an admission in force.
    """
    for entry in allocations.by_workload[key].entries.values():
        capacity.placed.shift(entry.facts, entry.place, 0, sign * (entry.count - len(entry.covered)))
        for spot, vector in _charged(allocations, capacity, entry):
            capacity.charge(spot, vector, sign)
    for pod in (allocations.pods[name] for name in allocations.pods_of(key)):
        counted = sign * int(pod.key in allocations.slot_of)
        capacity.placed.shift(pod.facts, on_node(pod.node), sign - counted, counted)
    for node, vector in _foreign(allocations, capacity, key):
        capacity.add_foreign(node, vector, sign)


def taken(allocations: Allocations, capacity: Capacity, key: str) -> Iterator[tuple[Spot, Vector]]:
    """Yields the spots and amounts that `shift` would change, including pods that are charged on their nodes."""
    for entry in allocations.by_workload[key].entries.values():
        yield from _charged(allocations, capacity, entry)
    for node, vector in _foreign(allocations, capacity, key):
        yield Spot(SpotKind.NODE, "", (node,)), vector


def _charged(allocations: Allocations, capacity: Capacity, entry: EntryUsage) -> Iterator[tuple[Spot, Vector]]:
    if not entry.by_node:
        yield entry.spot, times(entry.vector, entry.count)
        return
    for node, count in entry.assumed.items():
        yield Spot(SpotKind.NODE, entry.flavor, (node,)), times(entry.vector, count)
    for pod in (allocations.pods[key] for key in entry.covered):
        yield Spot(SpotKind.NODE, entry.flavor, (pod.node,)), capacity.columns.vector(held(pod))


def _foreign(allocations: Allocations, capacity: Capacity, key: str) -> Iterator[tuple[str, Vector]]:
    """Yields the amounts charged on nodes for bound pods that are not covered, and for the surplus of covered pods."""
    for pod in (allocations.pods[name] for name in allocations.pods_with_surplus(key)):
        slot = allocations.slot_of.get(pod.key)
        entry = None if slot is None else allocations.entry_of(slot)
        if entry is None:
            yield pod.node, capacity.columns.vector(held(pod))
        elif not entry.by_node and (surplus := allocations.surplus(entry, pod)):
            yield pod.node, surplus


class PlacementCheck:
    """A placement of one workload, reduced to rows and amounts, so that its fit can be checked again quickly."""

    def __init__(
        self, capacity: Capacity, requests: Sequence[PlacementRequest], assignments: Mapping[str, Assignment]
    ) -> None:
        self._tree, self._needs = _needs(capacity, requests, assignments)

    def holds(self) -> bool:
        """Reports whether the placement certainly fits now.

        False proves nothing for workloads with several flavors, hidden nodes, pod terms, or capacity held beside their pods.
        """
        if self._tree is None:
            return False
        for column, (rows, amounts) in self._needs.items():
            free = self._tree.free(column)
            if free is None or bool((free[rows] < amounts).any()):
                return False
        return True


def _needs(
    capacity: Capacity, requests: Sequence[PlacementRequest], assignments: Mapping[str, Assignment]
) -> tuple[Tree | None, dict[int, tuple[Ints, Ints]]]:
    flavors = {request.flavor for request in requests}
    tree = capacity.trees.get(next(iter(flavors))) if len(flavors) == 1 else None
    if tree is None or tree.shape.hidden_nodes:
        return None, {}
    if any(request.asks_beside or capacity.placed.concerns(request.facts) for request in requests):
        return None, {}
    needs: dict[int, dict[int, int]] = {}
    for request in requests:
        vector = capacity.columns.vector(pod_amounts(request.pod_set))
        for domain in assignments[request.pod_set.name].domains:
            row = tree.domain_row(domain.values)
            if row is None:
                return None, {}
            for column, amount in vector:
                if amount:
                    by_row = needs.setdefault(column, {})
                    by_row[row] = by_row.get(row, 0) + amount * domain.count
    return tree, {column: _arrays(by_row) for column, by_row in needs.items()}


def _arrays(by_row: Mapping[int, int]) -> tuple[Ints, Ints]:
    return np.array(list(by_row), dtype=np.int64), np.array(list(by_row.values()), dtype=np.int64)
