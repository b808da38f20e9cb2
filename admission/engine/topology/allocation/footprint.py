"""What workloads take of the trees' rows, as arrays: one arithmetic step removes or restores thousands of workloads.

Only free amounts change; allocations, usage and quota stay. So it is done inside a question, undone before the question
ends, and never seen by an audit. `Capacity.charge` and simulated_removal.py do the same for one workload at a time,
with the journal. Called by ledger.py for cycle/projected_ledger.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from admission.engine.topology.allocation.capacity import Capacity, Spot
from admission.engine.topology.tree.level import Ints
from admission.engine.topology.usage import Vector


@dataclass(frozen=True, slots=True)
class Cells:
    """Amounts used in one tree: three int64 arrays of equal length. A cell may occur several times."""

    columns: Ints
    rows: Ints
    amounts: Ints

    def part(self, first: int, last: int) -> Cells:
        """Returns the entries `first` to `last` - 1."""
        return Cells(self.columns[first:last], self.rows[first:last], self.amounts[first:last])


Footprint = Mapping[str, Cells]
"""What is used, by the flavor of the tree."""


def footprint(capacity: Capacity, taken: Iterable[tuple[Spot, Vector]]) -> Footprint:
    """Returns the footprint of all that is charged on these spots, in every tree that contains them."""
    found: dict[str, list[tuple[int, int, int]]] = {}
    for spot, vector in taken:
        for flavor in capacity.trees:
            if (row := capacity.row(flavor, spot)) is not None:
                found.setdefault(flavor, []).extend((column, row, amount) for column, amount in vector)
    return {flavor: _cells(entries) for flavor, entries in found.items()}


def _cells(entries: Sequence[tuple[int, int, int]]) -> Cells:
    columns, rows, amounts = np.array(entries, dtype=np.int64).reshape(-1, 3).T
    return Cells(columns, rows, amounts)


def joined(footprints: Sequence[Footprint], flavor: str) -> tuple[Cells, Ints]:
    """Returns the footprints of one tree concatenated, and the offset of each (one more offset than footprints)."""
    parts = [each.get(flavor, _NOTHING) for each in footprints]
    offsets = np.zeros(len(parts) + 1, dtype=np.int64)
    if not parts:
        return _NOTHING, offsets
    np.cumsum([len(part.amounts) for part in parts], out=offsets[1:])
    return Cells(*(np.concatenate([getattr(part, name) for part in parts]) for name in Cells.__slots__)), offsets


_NONE = np.zeros(0, dtype=np.int64)
_NOTHING = Cells(_NONE, _NONE, _NONE)


def free(capacity: Capacity, flavor: str, cells: Cells, sign: int) -> None:
    """Free these amounts (sign 1), or use them again (-1)."""
    tree = capacity.trees.get(flavor)
    if tree is not None and len(cells.amounts):
        tree.shift_cells(cells.columns, cells.rows, sign * cells.amounts)
