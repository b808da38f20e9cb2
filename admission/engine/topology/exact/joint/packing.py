"""Exact vector packing: places pods of several shapes on shared rows (hosts), or proves that they do not fit.

Pods of one shape can be counted row by row; several shapes compete for the resources of a row. The search proceeds row by
row and tries the patterns (a number of pods of each shape) that are maximal: no further pod of any shape would fit. Other
patterns need not be tried, since fewer pods in a row help neither the remaining rows nor the slices: a slice layer counts
the whole slices of a domain when the rows move on to the next domain, and surplus pods are dropped at the end. Failed states
are memoized, and a state is pruned if the remaining rows cannot hold the missing pods (limits.py).

So a negative answer is a proof, unless the budget ended; then the answer is unknown. The first pattern of a row takes as
many pods as possible of the shape that is hardest to place, which finds most answers without backtracking. Pure arithmetic
on tuples; called by problem.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

from admission.engine.topology.exact.joint.limits import LimitRow, PackingItem, PackingLimits, Vec, fit

Counts = list[Vec]
"""The number of pods of each item, by row, in the order of the given rows."""

_DEEPEST = 250


@dataclass(slots=True)
class NodeBudget:
    """The number of search nodes that may still be expanded (`left`), and that were expanded (`used`)."""

    left: int
    used: int = 0

    def take(self) -> bool:
        """Counts one search node. Returns False if the budget is spent."""
        if self.left <= 0:
            return False
        self.left -= 1
        self.used += 1
        return True


class NoPacking(Enum):
    """The reason why a search found no packing: there is none, or the budget ended."""

    PROVED = "there is none"
    UNKNOWN = "the budget ended"


def pack(rows: Sequence[LimitRow], items: Sequence[PackingItem], budget: NodeBudget) -> Counts | NoPacking:
    """Returns the pods of each item on each row, or why there is no packing. Rows must be in tree order if items have layers.

    Equivalent items are packed as one item and separated afterwards.
    """
    alike: dict[object, list[int]] = {}
    for m, item in enumerate(items):
        shape = m if item.layers else (item.vector, tuple([row.allowed[m] for row in rows]))
        alike.setdefault(shape, []).append(m)
    merged = [
        PackingItem(items[members[0]].vector, sum(items[m].count for m in members), items[members[0]].layers)
        for members in alike.values()
    ]
    firsts = [members[0] for members in alike.values()]
    counts = _packed(
        [LimitRow(row.free, row.path, tuple([row.allowed[m] for m in firsts])) for row in rows], merged, budget
    )
    return counts if isinstance(counts, NoPacking) else _separated(counts, list(alike.values()), items)


def _separated(counts: Counts, alike: Sequence[Sequence[int]], items: Sequence[PackingItem]) -> Counts:
    missing = [item.count for item in items]
    separated: Counts = []
    for merged in counts:
        pattern = [0] * len(items)
        for pods, members in zip(merged, alike, strict=True):
            for m in members:
                pattern[m] = min(pods, missing[m])
                missing[m] -= pattern[m]
                pods -= pattern[m]
        separated.append(tuple(pattern))
    return separated


def _packed(rows: Sequence[LimitRow], items: Sequence[PackingItem], budget: NodeBudget) -> Counts | NoPacking:
    fits = [[fit(row.free, item.vector) if row.allowed[m] else 0 for m, item in enumerate(items)] for row in rows]
    useful = [index for index, some in enumerate(fits) if any(some)]
    if not any(item.layers for item in items):
        useful.sort(key=lambda index: (sum(rows[index].allowed), rows[index].free, rows[index].allowed))
    packed = _Packer([rows[index] for index in useful], [fits[index] for index in useful], items, budget).run()
    if isinstance(packed, NoPacking):
        return packed
    counts: Counts = [(0,) * len(items)] * len(rows)
    for index, pattern in zip(useful, packed, strict=True):
        counts[index] = pattern
    return counts


State = tuple[int, ...]
"""The missing pods of each item, then for each item and layer the pods in the current domain not yet counted as slices."""


class _Packer:
    """The search for one packing. `_order` has the items in the order in which patterns consider them, hardest first."""

    def __init__(
        self, rows: Sequence[LimitRow], fits: Sequence[Sequence[int]], items: Sequence[PackingItem], budget: NodeBudget
    ) -> None:
        """`fits` is the number of pods that fit on a row without other pods, by row and item."""
        self._rows = rows
        self._fits = fits
        self._items = items
        self._budget = budget
        self._failed: set[tuple[int, State]] = set()
        self._unknown = False
        self._changes = [*(_change(row, after) for row, after in pairwise(rows)), 0]
        self._at, at = [], len(items)
        for item in items:
            self._at.append(at)
            at += len(item.layers)
        self._start: State = (*(item.count for item in items), *([0] * (at - len(items))))
        self._limits = PackingLimits(rows, fits, items)
        alone = [sum(column) for column in zip(*fits, strict=True)] or [0] * len(items)
        self._order = sorted(range(len(items)), key=lambda m: (alone[m] * 1000 // max(items[m].count, 1), m))
        self._counts: Counts = []

    def run(self) -> Counts | NoPacking:
        """Returns the pods of each item on each row, or why there is no packing."""
        if self._infeasible(0, self._start):
            return NoPacking.PROVED
        counts = self._search(0, self._start) if len(self._rows) <= _DEEPEST else self._branch()
        if not counts:
            return NoPacking.UNKNOWN if self._unknown else NoPacking.PROVED
        self._counts += [(0,) * len(self._items)] * (len(self._rows) - len(self._counts))
        return self._trimmed()

    def _search(self, index: int, state: State) -> bool:
        if self._complete(state):
            return True
        if index == len(self._rows) or (index, state) in self._failed or self._infeasible(index, state):
            return False
        for pattern in self._patterns(index, state):
            if not self._budget.take():
                self._unknown = True
                return False
            self._counts.append(pattern)
            if self._search(index + 1, self._after(index, state, pattern)):
                return True
            self._counts.pop()
            if self._unknown:
                return False
        self._failed.add((index, state))
        return False

    def _branch(self) -> bool:
        """Tries only the first pattern of each row, since there are too many rows to search. Reports success."""
        state = self._start
        for index in range(len(self._rows)):
            if self._complete(state):
                return True
            pattern = next(self._patterns(index, state))
            self._counts.append(pattern)
            state = self._after(index, state, pattern)
        self._unknown = not self._complete(state)
        return not self._unknown

    # ---- states

    def _wanted(self, state: State) -> list[int]:
        """Returns the pods of each item that are still to be placed, net of pods in unfinished slices."""
        return [
            state[m] - sum(state[at : at + len(item.layers)])
            for m, (item, at) in enumerate(zip(self._items, self._at, strict=True))
        ]

    def _after(self, index: int, state: State, pattern: Vec) -> State:
        return self._passed(state, pattern, self._changes[index])

    def _passed(self, state: State, pattern: Vec, change: int) -> State:
        """Returns the state after a row with this pattern, if the next row is in other domains from level `change` down."""
        new = list(state)
        for m, (item, at) in enumerate(zip(self._items, self._at, strict=True)):
            if not item.layers:
                new[m] -= pattern[m]
                continue
            new[at + len(item.layers) - 1] += pattern[m]
            for layer in range(len(item.layers) - 1, -1, -1):
                level, size = item.layers[layer]
                if level < change:
                    break
                whole = new[at + layer] // size * size
                new[at + layer] = 0
                if layer:
                    new[at + layer - 1] += whole
                else:
                    new[m] -= whole
        return tuple(new)

    def _complete(self, state: State) -> bool:
        missing = state[: len(self._items)]
        if not any(missing):
            return True
        return len(state) > len(missing) and not any(self._passed(state, (0,) * len(missing), 0)[: len(missing)])

    def _infeasible(self, index: int, state: State) -> bool:
        return self._limits.exceeded(index, self._wanted(state))

    # ---- patterns of a row

    def _patterns(self, index: int, state: State) -> Iterator[Vec]:
        """Yields the maximal patterns of the row, those with most pods of the hardest item first."""
        row, wanted = self._rows[index], self._wanted(state)
        most = [
            min(wanted[m], fit(row.free, item.vector)) if row.allowed[m] else 0 for m, item in enumerate(self._items)
        ]
        active = [m for m in self._order if most[m] > 0]
        pattern = [0] * len(self._items)
        yield from self._fill(active, 0, list(row.free), pattern, most)

    def _fill(
        self, active: Sequence[int], position: int, free: list[int], pattern: list[int], most: Sequence[int]
    ) -> Iterator[Vec]:
        if position == len(active):
            if not any(pattern[m] < most[m] and fit(free, self._items[m].vector) for m in active):
                yield tuple(pattern)
            return
        m = active[position]
        vector = self._items[m].vector
        top = min(most[m], fit(free, vector))
        for number in range(top, -1 if position + 1 < len(active) else top - 1, -1):
            pattern[m] = number
            left = [have - number * want for have, want in zip(free, vector, strict=True)]
            yield from self._fill(active, position + 1, left, pattern, most)
        pattern[m] = 0

    # ---- whole slices only

    def _trimmed(self) -> Counts:
        columns = [list(column) for column in zip(*self._counts, strict=True)]
        for m, item in enumerate(self._items):
            for level, size in reversed(item.layers):
                self._trim(columns[m], level, size)
        return list(zip(*columns, strict=True)) if columns else self._counts

    def _trim(self, column: list[int], level: int, size: int) -> None:
        """Drops the pods beyond whole slices from the last rows of each domain of the level."""
        domains: dict[Vec, list[int]] = {}
        for index, row in enumerate(self._rows):
            domains.setdefault(row.path[: level + 1], []).append(index)
        for indexes in domains.values():
            surplus = sum(column[index] for index in indexes) % size
            for index in reversed(indexes):
                part = min(surplus, column[index])
                column[index] -= part
                surplus -= part


def _change(row: LimitRow, after: LimitRow) -> int:
    """Returns the first level at which the two rows lie in different domains."""
    return next((level for level, (a, b) in enumerate(zip(row.path, after.path, strict=True)) if a != b), len(row.path))
