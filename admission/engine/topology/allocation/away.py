"""Frees what workloads use on nodes inside a context, all of them in one vector operation.

A cycle asks about each head what fits once the victims of all preemptors before it have left, and these may be hundreds. What a
victim uses is read once. It stays valid while the workload has the same allocation and the hosts have the same rows, which each
question compares; so nothing has to be told what changed, also by a trial or its end. Called by ledger.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager

from admission.engine.topology.allocation.allocations import Allocations
from admission.engine.topology.allocation.capacity import Capacity
from admission.engine.topology.allocation.entries import Allocation
from admission.engine.topology.allocation.footprint import Footprint, SparseAmounts, footprint, joined, use
from admission.engine.topology.allocation.simulated_removal import taken


class AwayUsage:
    """The usage of the workloads of the last question, by the flavor of the tree."""

    def __init__(self, allocations: Allocations, capacity: Capacity) -> None:
        self._allocations, self._capacity = allocations, capacity
        self._read: dict[str, Allocation] = {}
        self._rows: dict[str, tuple[object, int]] = {}
        self._cells: Mapping[str, SparseAmounts] = {}

    def countable(self, key: str) -> bool:
        """Reports whether what the workload uses is all charged with its allocation, as a whole for each domain."""
        allocation = self._allocations.by_workload[key]
        by_node = self._read.get(key) is not allocation and allocation.by_node()
        return not (by_node or self._capacity.placed.takes or self._allocations.has_surplus(key))

    @contextmanager
    def freed(self, keys: Collection[str]) -> Iterator[None]:
        """Opens a context in which these workloads use nothing on nodes. All must be `countable`. Use it in a trial."""
        if not keys:
            yield
            return
        self._read_anew(keys)
        cells = self._cells
        for flavor, each in cells.items():
            use(self._capacity, flavor, each, -1)
        try:
            yield
        finally:
            for flavor, each in cells.items():
                use(self._capacity, flavor, each, +1)

    def _read_anew(self, keys: Iterable[str]) -> None:
        """Makes `_cells` the usage of these workloads. Usually some have joined those of the question before."""
        by_workload, trees = self._allocations.by_workload, self._capacity.trees
        wanted = {key: by_workload[key] for key in keys}
        rows: dict[str, tuple[object, int]] = {name: (tree, tree.row_changes) for name, tree in trees.items()}
        kept = rows == self._rows and all(wanted.get(key) is each for key, each in self._read.items())
        added = [key for key in wanted if not kept or key not in self._read]
        if kept and not added:
            return
        prints: list[Footprint] = [self._cells] if kept else []
        prints += [footprint(self._capacity, taken(self._allocations, self._capacity, key)) for key in sorted(added)]
        self._cells = {flavor: joined(prints, flavor)[0] for flavor in {name for each in prints for name in each}}
        self._read, self._rows = wanted, rows
