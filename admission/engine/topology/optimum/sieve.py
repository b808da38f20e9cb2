"""The answer with the fewest domains below, where all else that comes before in the objective is known to be at its least.

Such an answer opens k domains in m parents, all below them with them, and holds exactly H. Each of its parents is opened in one
way: with so much worth (losses.py), so many domains, and so many domains below. For a bound only the fewest below matter of all
ways with equal worth and domains, and not whose they are: if each parent may be opened any number of times, the fewest below of
p ways are a small table, the one of p - 1 ways added to that of single ways. A way is in no answer with at most u below, unless
it and the fewest that m - 1 ways need for the rest make u or less. So u is raised from the least that this leaves possible
until what is left has an answer. It is looked for parent by parent; where that looks at too many ways, or finds equally good
answers, the table of losses.py has to decide, which knows ways that can be exchanged.

A way is one integer with the digits (worth, domains, below), so ways are added like numbers. Called by tight.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from admission.engine.topology.optimum.losses import Losses, Wanted
from admission.engine.topology.optimum.objective import Problem, pairs
from admission.engine.topology.tree.level import Ints

_MOST_SUMS = 1 << 15
_NOTHING = np.zeros(1, dtype=np.int64)


class _GivenUpError(Exception):
    pass


class _Ways(NamedTuple):
    """By way: its integer, its parent, and the way and the domain that it comes from by one change; -1 where it is the best."""

    key: Ints
    family: Ints
    source: Ints
    last: Ints


class _Sums(NamedTuple):
    """Sums of ways, ascending, with different heads: the digits (worth, domains), and how many are below."""

    keys: Ints
    heads: Ints
    below: Ints


class Sieve:
    """One search for an answer of just so many domains and parents as is wanted, with just the waste.

    `below`: how many domains each domain of the asked level has below it; `budget`: ways to look at.
    """

    def __init__(self, problem: Problem, losses: Losses, below: Ints, wanted: Wanted, budget: int) -> None:
        self._losses, self._wanted, self._budget = losses, wanted, budget
        self._capacity = problem.capacity[problem.asked]
        home = problem.parent[problem.asked].take(losses.slots)
        order = home.argsort(kind="stable")
        self._slots, self._home = losses.slots.take(order), home.take(order)
        self._number = below.take(self._slots)
        # Two digits have room for all that can be opened; the worth, above them, is counted from the least that a way can have.
        # Where a parent used twice carries over, a bound is looser and still one.
        self._all = int(self._number.sum())
        self._bits = self._all.bit_length()
        self._below = (1 << self._bits) - 1
        self._wide = self._bits + len(self._slots).bit_length()
        self._least = losses.rent - losses.most
        held = problem.need + wanted.waste
        over = held - losses.price * wanted.domains - wanted.parents * self._least
        self._target = (over << self._wide) + (wanted.domains << self._bits)
        self.expanded = 0

    def run(self) -> Ints | None:
        """Domains of the asked level; None where that takes too long, or where not one answer is the best."""
        longest = self._wanted.parents * (int(self._losses.worth.max()) - self._least)
        if longest.bit_length() + self._wide > 61:
            return None
        try:
            ways = self._ways()
            rests = self._rests(ways.key)
            totals = self._totals(ways.key, rests[-1])
            fewest = [dict(zip(rest.heads.tolist(), rest.below.tolist(), strict=True)) for rest in rests[:-1]]
            most = int(totals.min())
            while most <= self._all:
                found = self._walked(ways, (totals <= most).nonzero()[0], fewest, most)
                if found is not None:
                    return found
                most = int(totals[totals > most].min(initial=self._all + 1))
        except _GivenUpError:
            pass
        return None

    def _ways(self) -> _Ways:
        """Of all parents: first the best way, with all that are worth something, then those one step away from it, two, ..."""
        losses, home = self._losses, self._home
        own = self._capacity.take(self._slots) - losses.price
        self._taken = taken = own > 0
        opened = self._number + (1 << self._bits)
        # To leave out what is worth something, and to take what is not, loses its worth either way.
        step = np.where(taken, -opened, opened) - (np.abs(own) << self._wide)
        self._bounds = bounds = _runs(home)
        first, end = bounds[:-1], bounds[1:]
        worth = losses.worth.take(home.take(first))
        key = np.add.reduceat(np.where(taken, opened, 0), first) + (worth - self._least << self._wide)
        floor = np.maximum(worth - losses.rent, 0) << self._wide
        family, none = np.arange(len(first)), np.full(len(first), -1)
        parts = [_Ways(key, family, none, none)]
        following, ends, number = first, end, 0
        while True:
            count = ends - following
            until = count.cumsum()
            total = int(until[-1])
            self._spend(total)
            source = np.arange(len(key)).repeat(count)
            last = np.arange(total) + (ends - until).take(source)
            key, family = key.take(source) + step.take(last), family.take(source)
            able = (key >= floor.take(family)).nonzero()[0]
            if not len(able):
                return _Ways(*map(np.concatenate, zip(*parts, strict=True)))
            source, last, key, family = source.take(able), last.take(able), key.take(able), family.take(able)
            parts.append(_Ways(key, family, number + source, last))
            number += len(count)
            following, ends = last + 1, end.take(family)

    def _spend(self, ways: int) -> None:
        self.expanded += ways
        if self.expanded > self._budget:
            raise _GivenUpError

    def _rests(self, keys: Ints) -> list[_Sums]:
        """By number of parents, up to all but one: sums of so many ways, of equal ones the one with the fewest below."""
        single = self._unlike(keys)
        found = [_Sums(_NOTHING, _NOTHING, _NOTHING), single]
        for _ in range(self._wanted.parents - 2):
            if len(found[-1].keys) * len(single.keys) > _MOST_SUMS:
                raise _GivenUpError
            sums = np.add.outer(found[-1].keys, single.keys).ravel()
            # The ways that are still missing are no more than the largest, so many times.
            least = self._target - (self._wanted.parents - len(found)) * int(single.keys[-1])
            able = (sums >= least).nonzero()[0]
            if not len(able):
                raise _GivenUpError
            found.append(self._unlike(sums.take(able)))
        return found[: self._wanted.parents]

    def _unlike(self, keys: Ints) -> _Sums:
        keys = np.sort(keys)
        heads = keys >> self._bits
        first = _runs(heads)[:-1]
        keys = keys.take(first)
        return _Sums(keys, heads.take(first), keys & self._below)

    def _totals(self, keys: Ints, rest: _Sums) -> Ints:
        """By way: how many are below in an answer with it, at least."""
        missing = (self._target >> self._bits) - (keys >> self._bits)
        at = np.minimum(rest.heads.searchsorted(missing), len(rest.heads) - 1)
        fewest = (keys & self._below) + rest.below.take(at)
        return np.where(rest.heads.take(at) == missing, fewest, self._all + 1)

    def _walked(self, ways: _Ways, left: Ints, fewest: Sequence[Mapping[int, int]], most: int) -> Ints | None:
        """The best of all answers by the ways that are left, with at most so many below."""
        families: dict[int, list[tuple[int, int]]] = {}
        some = ways.family.take(left).tolist(), ways.key.take(left).tolist(), left.tolist()
        for family, key, way in zip(*some, strict=True):
            families.setdefault(family, []).append((key, way))
        answers = list(self._walk(list(families.values()), fewest, 0, self._wanted.parents, self._target + most))
        most_spare = max((spare for _, spare in answers), default=0)
        best = [self._opened(ways, chosen) for chosen, spare in answers if spare == most_spare]
        if len(best) > 1:
            holes = [(*pairs(Counter(self._capacity[slots].tolist())),) for slots in best]
            best = [slots for slots, some in zip(best, holes, strict=True) if some == min(holes)]
        if len(best) > 1:
            raise _GivenUpError
        return best[0] if best else None

    def _walk(
        self,
        families: Sequence[Sequence[tuple[int, int]]],
        fewest: Sequence[Mapping[int, int]],
        at: int,
        parents: int,
        missing: int,
    ) -> Iterator[tuple[tuple[int, ...], int]]:
        """Answers for what is missing, by so many of the families from `at` on: their ways, and the spare domains below."""
        if not parents:
            yield (), missing & self._below
            return
        # What the first way leaves has been looked up when ways were sieved.
        rests, spare = fewest[parents - 1] if parents <= len(fewest) else None, missing & self._below
        for index in range(at, len(families) - parents + 1):
            self._spend(len(families[index]))
            for key, way in families[index]:
                left = missing - key
                if rests is None or (
                    key & self._below <= spare and rests.get(left >> self._bits, spare + 1) <= left & self._below
                ):
                    for more, over in self._walk(families, fewest, index + 1, parents - 1, left):
                        yield (way, *more), over

    def _opened(self, ways: _Ways, chosen: Sequence[int]) -> Ints:
        """Which domains these ways open."""
        opened: set[int] = set()
        for way in chosen:
            family = ways.family.item(way)
            begin, end = self._bounds[family : family + 2].tolist()
            opened.update((begin + self._taken[begin:end].nonzero()[0]).tolist())
            while (source := ways.source.item(way)) >= 0:
                opened ^= {ways.last.item(way)}
                way = source
        return self._slots[sorted(opened)]


def _runs(values: Ints) -> Ints:
    """Where runs of equal values begin, and the end of the last."""
    new = np.ones(len(values) + 1, dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=new[1:-1])
    return new.nonzero()[0]
