"""The usage of workloads on the trees' rows as arrays, so that one vector operation removes or restores many workloads.

Only free amounts change, with `use` also those in use; allocations, usage tables and quota stay. The caller therefore restores
the amounts within the same call, before an audit can run. `Capacity.charge` and simulated_removal.py change one workload at a
time, with the journal. Called by ledger.py for cycle/projected_ledger.py, and by away.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from admission.engine.topology.allocation.capacity import Capacity, Spot
from admission.engine.topology.tree.level import Ints
from admission.engine.topology.usage import Vector


@dataclass(frozen=True, slots=True)
class SparseAmounts:
    """Amounts used in one tree: three int64 arrays of equal length. A cell may occur several times."""

    columns: Ints
    rows: Ints
    amounts: Ints

    def part(self, first: int, last: int) -> SparseAmounts:
        """Returns the cells from `first` up to, but without, `last`."""
        return SparseAmounts(self.columns[first:last], self.rows[first:last], self.amounts[first:last])


Footprint = Mapping[str, SparseAmounts]
"""The cells that a workload uses, by the flavor of their tree."""


def footprint(capacity: Capacity, taken: Iterable[tuple[Spot, Vector]]) -> Footprint:
    """Returns the footprint of the amounts charged on these spots, in every tree that contains a spot."""
    by_flavor: dict[str, list[tuple[int, int, int]]] = {}
    for spot, vector in taken:
        for flavor in capacity.trees:
            if (row := capacity.row(flavor, spot)) is not None:
                by_flavor.setdefault(flavor, []).extend((column, row, amount) for column, amount in vector)
    return {flavor: _sparse(entries) for flavor, entries in by_flavor.items()}


def _sparse(entries: Sequence[tuple[int, int, int]]) -> SparseAmounts:
    columns, rows, amounts = np.array(entries, dtype=np.int64).reshape(-1, 3).T
    return SparseAmounts(columns, rows, amounts)


def joined(footprints: Sequence[Footprint], flavor: str) -> tuple[SparseAmounts, Ints]:
    """Returns the cells of all footprints in one tree, concatenated, and the len(footprints) + 1 offsets of the parts."""
    parts = [each.get(flavor, _NOTHING) for each in footprints]
    offsets = np.zeros(len(parts) + 1, dtype=np.int64)
    if not parts:
        return _NOTHING, offsets
    np.cumsum([len(part.amounts) for part in parts], out=offsets[1:])
    return SparseAmounts(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in SparseAmounts.__slots__)
    ), offsets


_NONE = np.zeros(0, dtype=np.int64)
_NOTHING = SparseAmounts(_NONE, _NONE, _NONE)


def free(capacity: Capacity, flavor: str, cells: SparseAmounts, sign: int) -> None:
    """Adds these amounts to the free amounts of the flavor's tree (`sign` 1), or subtract them again (-1)."""
    tree = capacity.trees.get(flavor)
    if tree is not None and len(cells.amounts):
        tree.shift_many(cells.columns, cells.rows, sign * cells.amounts)


def use(capacity: Capacity, flavor: str, cells: SparseAmounts, sign: int) -> None:
    """Adds these amounts to the usage in the flavor's tree (`sign` 1), or subtracts them (-1)."""
    tree = capacity.trees.get(flavor)
    if tree is not None and len(cells.amounts):
        tree.use_many(cells.columns, cells.rows, sign * cells.amounts)
        if sign < 0:
            capacity.capacity_freed(flavor)
