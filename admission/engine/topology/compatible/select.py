"""Selects domains by their counts without sorting all of them: placement.md 5.7 and 5.8 without leaders and affinity.

Both profiles fill whole domains in their order until the next domain holds the rest. BestFit starts with the largest and
ends with the tightest domain that holds the rest; LeastFree starts with the smallest. So only the domains of the answer and
one more matter, and a histogram of the counts finds them. Called by tree_search.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from admission.engine.topology.tree.level import Bools, Ints

_SMALL = 512
_HISTOGRAM = 1 << 16


@dataclass(frozen=True, slots=True)
class CandidateSet:
    """Candidate domains as parallel arrays: slots, slices and pods that fit, and labels that sort like the names."""

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
        """Returns the indexes in the order of the profile."""
        slices = self.slices if least else -self.slices
        if self.pods is self.slices:
            return np.lexsort((self.label, slices))
        return np.lexsort((self.label, self.pods, slices))

    def first(self, index: Ints) -> int:
        """Returns the first in order of these indexes with equal slices: fewest pods, then smallest label."""
        if self.pods is not self.slices:
            pods = self.pods[index]
            index = index[pods == pods.min()]
        return int(index[np.argmin(self.label[index])])


@dataclass(frozen=True, slots=True)
class Selection:
    """The chosen slots, and the number of slices that each gets."""

    ids: Ints
    slices: Ints


def tightest(field: CandidateSet, need: int, allowed: Bools | None = None) -> int | None:
    """Returns the index of the domain with the fewest slices that still holds `need`; None if no domain does."""
    fits = field.slices >= need
    if allowed is not None:
        fits &= allowed
    index = np.flatnonzero(fits)
    if not len(index):
        return None
    slices = field.slices[index]
    return field.first(index[slices == slices.min()])


def take(field: CandidateSet, need: int, *, least: bool) -> Selection | int:
    """Returns the domains that hold `need` slices together; if all of them do not, the number of slices that fit."""
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
        tight = tightest(field, rest, allowed)
        final = final if tight is None else tight
    chosen = np.append(index[:last], final)
    return Selection(field.ids[chosen], np.append(slices[:last], rest))


def _enough(field: CandidateSet, need: int, *, least: bool) -> Ints:
    """Returns the indexes of enough domains, first in order, to hold `need`; possibly all indexes."""
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
    """Returns the first `count` in order of these indexes with equal slices."""
    if count >= len(index):
        return index
    if field.pods is field.slices:
        return index[np.argpartition(field.label[index], count - 1)[:count]]
    return index[np.lexsort((field.label[index], field.pods[index]))[:count]]
