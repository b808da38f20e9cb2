"""Finds the answer with the fewest domains below the requested level, by eliminating options that a lower bound excludes.

The caller knows that all earlier figures of the objective are at their minimum. The answer opens k domains in m parents,
with all domains below them, and holds exactly H slices. Each of its parents is opened by one option: a value
(reduced_costs.py), a number of domains, and a number of domains below.

The lower bound is a relaxation: for each value and number of domains it considers only the option with the fewest domains
below, in whichever parent, and any parent may be used repeatedly. The fewest domains below p options then form a small
table, computed from the table of p - 1 options. An option can be part of an answer with at most u domains below only if its
domains below, plus the fewest that m - 1 options need for the rest, are at most u. So u is increased from its least possible
value until the remaining options contain an answer, which is searched parent by parent. If the search examines too many
options, or if answers tie, the table of reduced_costs.py decides, since it handles interchangeable options.

An option is one integer with the digits (value, domains, below), so that adding integers adds options. Called by tight.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from admission.engine.topology.exact.optimum.objective import Problem, pairs
from admission.engine.topology.exact.optimum.reduced_costs import ReducedCosts, Wanted
from admission.engine.topology.tree.level import Ints

_MOST_SUMS = 1 << 15
_NOTHING = np.zeros(1, dtype=np.int64)


class GaveUp(Exception):
    pass


class _Options(NamedTuple):
    """Options; those of a change name what they come from, and these are -1 for the best option of a parent."""

    key: Ints
    """The integer of each option."""
    family: Ints
    """The parent of each option."""
    source: Ints
    """The option from which one change derives it."""
    last: Ints
    """The domain from which one change derives it."""


class _OptionSums(NamedTuple):
    """Sums of options, ascending: the integers, their `heads` (the digits value and domains; distinct), and domains below."""

    keys: Ints
    heads: Ints
    below: Ints


class Elimination:
    """One search for an answer with exactly the wanted domains, parents and waste.

    `below` is the number of lower domains in each domain of the requested level, by slot. `budget` is the number of options
    to examine.
    """

    def __init__(self, problem: Problem, reduced: ReducedCosts, below: Ints, wanted: Wanted, budget: int) -> None:
        self._reduced, self._wanted, self._budget = reduced, wanted, budget
        self._capacity = problem.capacity[problem.requested]
        home = problem.parent[problem.requested].take(reduced.slots)
        order = home.argsort(kind="stable")
        self._slots, self._home = reduced.slots.take(order), home.take(order)
        self._number = below.take(self._slots)
        # The two lower digits hold every count that can occur; the value, above them, is relative to the least value of an
        # option. If the sum of a parent that is used twice carries into the next digit, the bound is weaker but still valid.
        self._all = int(self._number.sum())
        self._bits = self._all.bit_length()
        self._below = (1 << self._bits) - 1
        self._wide = self._bits + len(self._slots).bit_length()
        self._least = reduced.rent - reduced.most
        held = problem.need + wanted.waste
        over = held - reduced.price * wanted.domains - wanted.parents * self._least
        self._target = (over << self._wide) + (wanted.domains << self._bits)
        self.expanded = 0

    def run(self) -> Ints | None:
        """Returns the domains of the requested level; None if the search takes too long, or if several answers tie."""
        longest = self._wanted.parents * (int(self._reduced.worth.max()) - self._least)
        if longest.bit_length() + self._wide > 61:
            return None
        try:
            options = self._options()
            rests = self._rests(options.key)
            totals = self._totals(options.key, rests[-1])
            fewest = [dict(zip(rest.heads.tolist(), rest.below.tolist(), strict=True)) for rest in rests[:-1]]
            most = int(totals.min())
            while most <= self._all:
                domains = self._walked(options, (totals <= most).nonzero()[0], fewest, most)
                if domains is not None:
                    return domains
                most = int(totals[totals > most].min(initial=self._all + 1))
        except GaveUp:
            pass
        return None

    def _options(self) -> _Options:
        """Returns the options of all parents: the best, with every positive value, then those one change away, two, ..."""
        reduced, home = self._reduced, self._home
        own = self._capacity.take(self._slots) - reduced.price
        self._taken = taken = own > 0
        opened = self._number + (1 << self._bits)
        # Leaving out a positive value and taking a negative value both lose the absolute value.
        step = np.where(taken, -opened, opened) - (np.abs(own) << self._wide)
        self._bounds = bounds = _runs(home)
        first, end = bounds[:-1], bounds[1:]
        worth = reduced.worth.take(home.take(first))
        key = np.add.reduceat(np.where(taken, opened, 0), first) + (worth - self._least << self._wide)
        floor = np.maximum(worth - reduced.rent, 0) << self._wide
        family, none = np.arange(len(first)), np.full(len(first), -1)
        parts = [_Options(key, family, none, none)]
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
                return _Options(*map(np.concatenate, zip(*parts, strict=True)))
            source, last, key, family = source.take(able), last.take(able), key.take(able), family.take(able)
            parts.append(_Options(key, family, number + source, last))
            number += len(count)
            following, ends = last + 1, end.take(family)

    def _spend(self, options: int) -> None:
        self.expanded += options
        if self.expanded > self._budget:
            raise GaveUp

    def _rests(self, keys: Ints) -> list[_OptionSums]:
        """Returns the sums of 0, 1, ... m - 1 options; of sums with equal heads only the one with the fewest domains below."""
        single = self._distinct(keys)
        rests = [_OptionSums(_NOTHING, _NOTHING, _NOTHING), single]
        for _ in range(self._wanted.parents - 2):
            if len(rests[-1].keys) * len(single.keys) > _MOST_SUMS:
                raise GaveUp
            sums = np.add.outer(rests[-1].keys, single.keys).ravel()
            # No missing option is larger than the largest one.
            least = self._target - (self._wanted.parents - len(rests)) * int(single.keys[-1])
            able = (sums >= least).nonzero()[0]
            if not len(able):
                raise GaveUp
            rests.append(self._distinct(sums.take(able)))
        return rests[: self._wanted.parents]

    def _distinct(self, keys: Ints) -> _OptionSums:
        keys = np.sort(keys)
        heads = keys >> self._bits
        first = _runs(heads)[:-1]
        keys = keys.take(first)
        return _OptionSums(keys, heads.take(first), keys & self._below)

    def _totals(self, keys: Ints, rest: _OptionSums) -> Ints:
        """Returns, by option, a lower bound of the domains below in an answer that contains it."""
        missing = (self._target >> self._bits) - (keys >> self._bits)
        at = np.minimum(rest.heads.searchsorted(missing), len(rest.heads) - 1)
        fewest = (keys & self._below) + rest.below.take(at)
        return np.where(rest.heads.take(at) == missing, fewest, self._all + 1)

    def _walked(self, options: _Options, left: Ints, fewest: Sequence[Mapping[int, int]], most: int) -> Ints | None:
        """Returns the best answer among the remaining options `left` with at most `most` domains below, or None."""
        families: dict[int, list[tuple[int, int]]] = {}
        some = options.family.take(left).tolist(), options.key.take(left).tolist(), left.tolist()
        for family, key, option in zip(*some, strict=True):
            families.setdefault(family, []).append((key, option))
        answers = list(self._walk(list(families.values()), fewest, 0, self._wanted.parents, self._target + most))
        most_spare = max((spare for _, spare in answers), default=0)
        best = [self._opened(options, chosen) for chosen, spare in answers if spare == most_spare]
        if len(best) > 1:
            unused_pairs = [(*pairs(Counter(self._capacity[slots].tolist())),) for slots in best]
            best = [slots for slots, some in zip(best, unused_pairs, strict=True) if some == min(unused_pairs)]
        if len(best) > 1:
            raise GaveUp
        return best[0] if best else None

    def _walk(
        self,
        families: Sequence[Sequence[tuple[int, int]]],
        fewest: Sequence[Mapping[int, int]],
        at: int,
        parents: int,
        missing: int,
    ) -> Iterator[tuple[tuple[int, ...], int]]:
        """Yields the answers for `missing` with `parents` of the families from `at` on: the options and the spare domains
        below.
        """
        if not parents:
            yield (), missing & self._below
            return
        # The elimination has already checked the rest of the first option.
        rests, spare = fewest[parents - 1] if parents <= len(fewest) else None, missing & self._below
        for index in range(at, len(families) - parents + 1):
            self._spend(len(families[index]))
            for key, option in families[index]:
                left = missing - key
                if rests is None or (
                    key & self._below <= spare and rests.get(left >> self._bits, spare + 1) <= left & self._below
                ):
                    for more, over in self._walk(families, fewest, index + 1, parents - 1, left):
                        yield (option, *more), over

    def _opened(self, options: _Options, chosen: Sequence[int]) -> Ints:
        """Returns the domains of the requested level that these options open."""
        opened: set[int] = set()
        for option in chosen:
            family = options.family.item(option)
            begin, end = self._bounds[family : family + 2].tolist()
            opened.update((begin + self._taken[begin:end].nonzero()[0]).tolist())
            while (source := options.source.item(option)) >= 0:
                opened ^= {options.last.item(option)}
                option = source
        return self._slots[sorted(opened)]


def _runs(values: Ints) -> Ints:
    """Returns the indexes at which runs of equal values begin, and the length of the array."""
    new = np.ones(len(values) + 1, dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=new[1:-1])
    return new.nonzero()[0]
