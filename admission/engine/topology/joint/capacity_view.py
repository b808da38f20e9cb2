"""The capacity that group items compete for: domains and their rows (hosts) as small tuples, read when first needed.

A row is described by its free amounts and by which items may use it. A domain is described by its rows, by an upper
bound of what it holds (`capacity`) and by its `signature`: equal for domains that are equivalent. Which item is where
is problem.py's concern.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from admission.engine.topology.joint.limits import LimitRow, Vec
from admission.engine.topology.tree.level import Bools, Ints
from admission.engine.topology.tree.tree import Tree

DomainRef = tuple[int, int]
"""(level, slot) of a domain; level -1: the whole tree."""
EVERYWHERE: DomainRef = (-1, 0)
PodShape = tuple[Vec, bytes | None]
"""What one pod uses, and the rows that it may use (None: all)."""


@dataclass(frozen=True, slots=True)
class _Lists:
    """By row: free amounts of each resource, and whether each item may use it; parents of each level, of the rows last."""

    free: list[list[int]]
    may: list[list[bool] | None]
    parents: list[list[int]]


class CapacityView:
    """One flavor's tree at one moment. `cared`: the levels whose domains matter to some item."""

    def __init__(
        self,
        tree: Tree,
        free: Sequence[Ints],
        vectors: Sequence[Vec],
        masks: Sequence[Bools | None],
        cared: Collection[int],
    ) -> None:
        """`free`: by resource and row. By item: the `vectors` of one pod, and the `masks` of its rows (None: all)."""
        self.tree = tree
        self.shape_of = [
            (vector, None if mask is None else mask.tobytes()) for vector, mask in zip(vectors, masks, strict=True)
        ]
        self.shapes = list(dict.fromkeys(self.shape_of))
        self._free = free
        self._masks = masks
        self._cared = cared
        self._lists: _Lists | None = None
        self._rows: dict[DomainRef, list[int]] = {}
        self._row: dict[int, LimitRow] = {}
        self._alike: dict[object, int] = {}
        self._signs: dict[DomainRef, int] = {}
        self._capacities: dict[int, list[Vec]] = {}

    def chain(self, place: DomainRef) -> list[DomainRef]:
        """Returns the domain and all domains around it."""
        level, slot = place
        found = []
        while level >= 0:
            found.append((level, slot))
            slot, level = int(self.tree.levels[level].parent[slot]), level - 1
        return [*found, EVERYWHERE]

    def around(self, level: int, choice: Sequence[int]) -> DomainRef:
        """Returns the smallest domain that contains all chosen ones."""
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
            found: list[int] = self.tree.rows.ids().tolist()
            return found
        slots = [slot]
        chain = self.tree.levels[level:] if self.tree.shape.hidden_nodes else self.tree.levels[level:-1]
        for depth in chain:
            slots = [child for one in slots for child in depth.children[one]]
        return slots

    def row(self, row: int) -> LimitRow:
        """Returns what a row offers."""
        found = self._row.get(row)
        if found is None:
            lists = self._read()
            free = tuple([column[row] for column in lists.free])
            allowed = tuple([may is None or may[row] for may in lists.may])
            found = self._row[row] = LimitRow(free, self._path(row), allowed)
        return found

    def _read(self) -> _Lists:
        """Returns the arrays as lists, which are faster to read cell by cell."""
        if self._lists is None:
            may = [None if mask is None else mask.tolist() for mask in self._masks]
            parents = [level.parent.tolist() for level in (*self.tree.levels, self.tree.rows)]
            self._lists = _Lists([column.tolist() for column in self._free], may, parents)
        return self._lists

    def _path(self, row: int) -> Vec:
        """Slots from the widest domain down to the lowest level's."""
        parents, slot, path = self._read().parents, row, []
        if self.tree.shape.hidden_nodes:
            slot = parents[-1][slot]
        for level in range(self.tree.depth - 1, -1, -1):
            path.append(slot)
            slot = parents[level][slot]
        path.reverse()
        return tuple(path)

    def signature(self, place: DomainRef) -> int:
        """Equal for domains that are equivalent for every item."""
        if place not in self._signs:
            level, slot = place
            shapes: object
            if any(cared > level for cared in self._cared) and 0 <= level < self.tree.depth - 1:
                shapes = tuple(
                    sorted(self.signature((level + 1, child)) for child in self.tree.levels[level].children[slot])
                )
            else:
                rows = [self.row(row) for row in self.rows(place)]
                shapes = tuple(sorted([(row.free, row.allowed) for row in rows]))
            self._signs[place] = self._alike.setdefault((level, shapes), len(self._alike))
        return self._signs[place]

    def capacity(self, place: DomainRef) -> Vec:
        """Returns an upper bound: free amounts of each resource, then for each pod shape how many such pods (or larger ones)
        fit.
        """
        level, slot = place
        if level not in self._capacities:
            self._capacities[level] = self._capacities_at(level)
        return self._capacities[level][slot]

    def _capacities_at(self, level: int) -> list[Vec]:
        """By slot of the level."""
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
    """Free amounts by resource and row; zeros for a resource that no row ever had."""
    found: list[Ints] = []
    for name in names:
        column = tree.columns.index.get(name)
        free = None if column is None else tree.free(column)
        if column is None or free is None:
            found.append(np.zeros(tree.rows.size, dtype=np.int64))
        else:
            found.append(np.maximum(free + tree.used(column) if simulate_empty else free, 0))
    return found
