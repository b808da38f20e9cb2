"""Select domains by number without sorting all of them: the part of placement.md 5.7 and 5.8 without leaders and
affinity.

Both profiles take whole domains in their order until one more would be too much, then a last one. BestFit goes from the
largest down and ends with the tightest that holds the rest; LeastFree goes from the smallest up. So only as many
domains matter as the answer has, plus one; a histogram of the numbers finds them. Called by tree_search.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from admission.engine.topology.tree.level import Bools, Ints

_SMALL = 512
_HISTOGRAM = 1 << 16


@dataclass(frozen=True, slots=True)
class CandidateSet:
    """Candidate domains: slots with slices, pods and labels."""

    ids: Ints
    slices: Ints
    pods: Ints
    label: Ints

    def __len__(self) -> int:
        return len(self.ids)

    def at(self, index: Ints) -> CandidateSet:
        """Returns the candidates with these indexes, in this order."""
        slices = self.slices[index]
        pods = slices if self.pods is self.slices else self.pods[index]
        return CandidateSet(self.ids[index], slices, pods, self.label[index])

    def order(self, *, least: bool) -> Ints:
        """Indexes in the order that the profile sorts by."""
        slices = self.slices if least else -self.slices
        if self.pods is self.slices:
            return np.lexsort((self.label, slices))
        return np.lexsort((self.label, self.pods, slices))

    def first(self, index: Ints) -> int:
        """Returns the first of these indexes, which have equal slices: fewest pods, then smallest values."""
        if self.pods is not self.slices:
            pods = self.pods[index]
            index = index[pods == pods.min()]
        return int(index[np.argmin(self.label[index])])


@dataclass(frozen=True, slots=True)
class Selection:
    """Chosen slots and how many slices of each."""

    ids: Ints
    slices: Ints


def tightest(field: CandidateSet, need: int, allowed: Bools | None = None) -> int | None:
    """Index of the domain with the fewest slices that still holds `need`, None if none does."""
    fits = field.slices >= need
    if allowed is not None:
        fits &= allowed
    index = np.flatnonzero(fits)
    if not len(index):
        return None
    slices = field.slices[index]
    return field.first(index[slices == slices.min()])


def take(field: CandidateSet, need: int, *, least: bool) -> Selection | int:
    """Domains that hold `need` slices together, or the number of slices there are if they do not."""
    total = int(field.slices.sum())
    if total < need or not len(field):
        return total
    index = _enough(field, need, least=least)
    part = field.at(index)
    part_order = part.order(least=least)
    index, slices = index[part_order], part.slices[part_order]
    upto = np.cumsum(slices)
    last = int(np.searchsorted(upto, need))
    rest = need - (int(upto[last - 1]) if last else 0)
    final = int(index[last])
    if not least:
        allowed = np.ones(len(field), dtype=np.bool_)
        allowed[index[:last]] = False
        found = tightest(field, rest, allowed)
        final = final if found is None else found
    chosen = np.append(index[:last], final)
    return Selection(field.ids[chosen], np.append(slices[:last], rest))


def _enough(field: CandidateSet, need: int, *, least: bool) -> Ints:
    """Indexes of the first domains in order, enough to hold `need` (or all, where that is cheap)."""
    top = int(field.slices.max())
    if len(field) <= _SMALL or top >= _HISTOGRAM or need <= 0:
        return np.arange(len(field), dtype=np.int64)
    amounts = np.bincount(field.slices, minlength=top + 1) * np.arange(top + 1)
    sums = np.cumsum(amounts if least else amounts[::-1])
    at = int(np.searchsorted(sums, need))
    edge = at if least else top - at
    inside = np.flatnonzero((field.slices < edge) & (field.slices > 0) if least else field.slices > edge)
    tied = np.flatnonzero(field.slices == edge)
    missing = need - (int(sums[at - 1]) if at else 0)
    return np.concatenate((inside, _firsts(field, tied, -(-missing // edge))))


def _firsts(field: CandidateSet, index: Ints, count: int) -> Ints:
    """Returns the first `count` of indexes with equal slices."""
    if count >= len(index):
        return index
    if field.pods is field.slices:
        return index[np.argpartition(field.label[index], count - 1)[:count]]
    return index[np.lexsort((field.label[index], field.pods[index]))[:count]]
