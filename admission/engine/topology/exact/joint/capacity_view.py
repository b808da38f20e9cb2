"""The capacity that group items compete for: domains and their rows (hosts) as small tuples, computed on first use.

A row is described by its free amounts and by the items that may use it. A domain is described by its rows, by an upper
bound of the pods and amounts that fit (`capacity`) and by its `signature`, which equivalent domains share. problem.py
decides which items a domain holds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from admission.engine.topology.exact.joint.limits import LimitRow, Vec
from admission.engine.topology.tree.level import Bools, Ints
from admission.engine.topology.tree.tree import Tree

DomainRef = tuple[int, int]
"""(level, slot) of a domain; level -1 stands for the whole tree."""
EVERYWHERE: DomainRef = (-1, 0)
PodShape = tuple[Vec, bytes | None]
"""The amounts that one pod requests, and the mask of rows that it may use as bytes (None: all rows)."""


@dataclass(frozen=True, slots=True)
class _Lists:
    """The arrays as lists."""

    free: list[list[int]]
    """By resource and row."""
    may: list[list[bool] | None]
    """By item and row; None for all rows."""
    parents: list[list[int]]
    """By level and slot; the last list is that of the rows."""


class CapacityView:
    """One flavor's tree as it is now. `requested_levels` are the levels at which some item requests a domain or slices."""

    def __init__(
        self,
        tree: Tree,
        free: Sequence[Ints],
        vectors: Sequence[Vec],
        masks: Sequence[Bools | None],
        requested_levels: Collection[int],
    ) -> None:
        """`free` is indexed by resource and row; `vectors` (one pod's amounts) and `masks` (usable rows, None: all) by item."""
        self.tree = tree
        self.shape_of = [
            (vector, None if mask is None else mask.tobytes()) for vector, mask in zip(vectors, masks, strict=True)
        ]
        self.shapes = list(dict.fromkeys(self.shape_of))
        self._free = free
        self._masks = masks
        self._requested_levels = requested_levels
        self._lists: _Lists | None = None
        self._rows: dict[DomainRef, list[int]] = {}
        self._row: dict[int, LimitRow] = {}
        self._alike: dict[object, int] = {}
        self._signs: dict[DomainRef, int] = {}
        self._capacities: dict[int, list[Vec]] = {}

    def chain(self, place: DomainRef) -> list[DomainRef]:
        """Returns the domain and all domains that contain it, from the innermost to the whole tree."""
        level, slot = place
        domains = []
        while level >= 0:
            domains.append((level, slot))
            slot, level = int(self.tree.levels[level].parent[slot]), level - 1
        return [*domains, EVERYWHERE]

    def around(self, level: int, choice: Sequence[int]) -> DomainRef:
        """Returns the smallest domain that contains all chosen slots of the level."""
        slots = set(choice)
        if not slots:
            return EVERYWHERE
        while len(slots) > 1:
            slots = {int(self.tree.levels[level].parent[slot]) for slot in slots} if level > 0 else {0}
            level -= 1
        return (level, slots.pop()) if level >= 0 else EVERYWHERE

    def rows(self, place: DomainRef) -> list[int]:
        """Returns the counting rows in the domain, in tree order."""
        if place not in self._rows:
            self._rows[place] = self.tree.rows.in_order(self._below(place))
        return self._rows[place]

    def _below(self, place: DomainRef) -> list[int]:
        level, slot = place
        if level < 0:
            row_ids: list[int] = self.tree.rows.ids().tolist()
            return row_ids
        slots = [slot]
        chain = self.tree.levels[level:] if self.tree.shape.hidden_nodes else self.tree.levels[level:-1]
        for depth in chain:
            slots = [child for one in slots for child in depth.children[one]]
        return slots

    def row(self, row: int) -> LimitRow:
        """Returns the row's free amounts, its path of slots, and the items that may use it."""
        row_limits = self._row.get(row)
        if row_limits is None:
            lists = self._read()
            free = tuple([column[row] for column in lists.free])
            allowed = tuple([may is None or may[row] for may in lists.may])
            row_limits = self._row[row] = LimitRow(free, self._path(row), allowed)
        return row_limits

    def _read(self) -> _Lists:
        """Returns the arrays as lists, which are faster to read cell by cell."""
        if self._lists is None:
            may = [None if mask is None else mask.tolist() for mask in self._masks]
            parents = [level.parent.tolist() for level in (*self.tree.levels, self.tree.rows)]
            self._lists = _Lists([column.tolist() for column in self._free], may, parents)
        return self._lists

    def _path(self, row: int) -> Vec:
        """Returns the slots of the row's domains, from the widest to the lowest level."""
        parents, slot, path = self._read().parents, row, []
        if self.tree.shape.hidden_nodes:
            slot = parents[-1][slot]
        for level in range(self.tree.depth - 1, -1, -1):
            path.append(slot)
            slot = parents[level][slot]
        path.reverse()
        return tuple(path)

    def signature(self, place: DomainRef) -> int:
        """Returns a number that two domains share only if they are equivalent for every item."""
        if place not in self._signs:
            level, slot = place
            shapes: object
            if any(requested > level for requested in self._requested_levels) and 0 <= level < self.tree.depth - 1:
                shapes = tuple(
                    sorted(self.signature((level + 1, child)) for child in self.tree.levels[level].children[slot])
                )
            else:
                rows = [self.row(row) for row in self.rows(place)]
                shapes = tuple(sorted([(row.free, row.allowed) for row in rows]))
            self._signs[place] = self._alike.setdefault((level, shapes), len(self._alike))
        return self._signs[place]

    def capacity(self, place: DomainRef) -> Vec:
        """Returns an upper bound of what fits: free amounts by resource, then, by pod shape, the number of pods of at least
        that size.
        """
        level, slot = place
        if level not in self._capacities:
            self._capacities[level] = self._capacities_at(level)
        return self._capacities[level][slot]

    def _capacities_at(self, level: int) -> list[Vec]:
        """Returns `capacity` of every domain of the level, by slot."""
        where = np.zeros(self.tree.rows.size, dtype=np.int64)
        if level >= 0:
            where = np.arange(self.tree.rows.size)
            hidden = (self.tree.rows,) if self.tree.shape.hidden_nodes else ()
            for below in (*hidden, *reversed(self.tree.levels[level + 1 :])):
                where = below.parent[where]
        columns = list(self._free)
        for shape in self.shapes:
            fits = np.minimum.reduce(
                [column // want for column, want in zip(self._free, shape[0], strict=True) if want]
            )
            mask = self._masks[self.shape_of.index(shape)]
            columns.append(fits if mask is None else np.where(mask, fits, 0))
        totals = np.zeros((len(columns), self.tree.levels[level].size if level >= 0 else 1), dtype=np.int64)
        for total, column in zip(totals, columns, strict=True):
            np.add.at(total, where, column)
        return list(zip(*totals.tolist(), strict=True))


def free_of(tree: Tree, names: Iterable[str], simulate_empty: bool) -> list[Ints]:
    """Returns the free amounts by resource and row; zeros for a resource that no row ever had.

    With `simulate_empty` the usage of admitted workloads counts as free.
    """
    arrays: list[Ints] = []
    for name in names:
        column = tree.columns.index.get(name)
        free = None if column is None else tree.free(column)
        if column is None or free is None:
            arrays.append(np.zeros(tree.rows.size, dtype=np.int64))
        else:
            arrays.append(np.maximum(free + tree.used(column) if simulate_empty else free, 0))
    return arrays
