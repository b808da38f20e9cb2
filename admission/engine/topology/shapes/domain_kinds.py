"""Kinds of domains: domains with the same capacity in the same arrangement, which have the same answer for every share.

A kind has a capacity and the set of shares that it can take under the hard constraints below, as the bits of an integer.
Created by shaping.py; read by plans.py, split.py and fallback.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache, reduce
from operator import or_
from typing import Final

import numpy as np

from admission.engine.model import LevelRule
from admission.engine.topology.tree.level import Bools, Ints
from admission.engine.topology.tree.tree import Tree

_SMALL: Final = 1024
"""The number of pods up to which shares are remembered: more would take much memory."""

Families = tuple[tuple["DomainKind", int], ...]
"""The kinds of the children, those with most capacity first, each with the number of such children."""


class DomainKind:
    """A class of equivalent domains of one level.

    `capacity` is the number of pods that fit, in addition to the `kept` pods that stay; a share includes these, so it is at
    least `kept`. `rule` is the rule of the children's level (at the lowest level, of the level itself). `children` leaves out
    children without capacity. `rank` orders kinds. `known` caches the cost below each share (split.py).
    """

    def __init__(
        self, rank: int, level: int, capacity: int, kept: int, total: int, rule: LevelRule, children: Families = ()
    ) -> None:
        self.rank = rank
        self.level = level
        self.capacity = capacity
        self.kept = kept
        self.cap = min(capacity + kept, total)
        self.rule = rule
        self.children = children
        self.known: dict[int, int] = {}

    @cached_property
    def units(self) -> int:
        """The number of children that can have pods."""
        return sum(many for _, many in self.children)

    @cached_property
    def whole(self) -> bool:
        """Whether the kind can take every share up to its capacity, including 0."""
        return not self.kept and self.takes == (1 << (self.cap + 1)) - 1

    @cached_property
    def takes(self) -> int:
        """The shares that the kind can take, as bits."""
        every = (1 << (self.cap + 1)) - (1 << self.kept)
        if not self.children or (self.rule.plain and all(child.whole for child, _ in self.children)):
            return every
        if self.kept:
            return (self._kept_evenly() if self.rule.even else self._any_shares()) & every
        options = tuple((self.options(child), many) for child, many in self.children)
        shares = _remembered if self.cap <= _SMALL else _shares
        return shares(self.rule, self.cap, options) & every

    def fits(self, share: int) -> bool:
        """Reports whether the kind can take the share."""
        if self.children and self.rule.even:
            return share == self.kept == 0 or (self.kept <= share <= self.cap and self.parts(share) > 0)
        return bool(self.takes >> share & 1)

    def options(self, child: DomainKind) -> int:
        """Returns the shares above 0 that a child may have, as bits."""
        return child.takes & self.rule.allowed

    def may_have(self, child: DomainKind, share: int) -> bool:
        """Reports whether a child may have this share."""
        return bool(self.rule.allowed >> share & 1) and child.fits(share)

    # ---- hard: the used units differ by one step at most

    def parts(self, share: int) -> int:
        """Returns the number of units to which a hard constraint distributes the share; 0 if that is impossible."""
        rule = self.rule
        if rule.packs:
            return int(any(self.may_have(child, share) for child in self._alone()))
        steps, rest = divmod(share, rule.step)
        most = 0 if rest else min(steps, self.units)
        some = range(most, 0, -1) if rule.partitions is None else (rule.partitions,)
        return next((parts for parts in some if parts <= most and self._in_parts(steps, parts)), 0)

    def _in_parts(self, steps: int, parts: int) -> bool:
        small, large = divmod(steps, parts)
        low, high, either = self._takers(small)
        fits = parts <= either and large <= high and parts - large <= low
        return fits and (not self.kept or self._keeps(small, parts, large))

    def _keeps(self, small: int, parts: int, large: int) -> bool:
        """Reports whether all children with kept pods can be among the used ones.

        A matching that covers those children and one that covers the shares can be combined into one that covers both
        (Mendelsohn and Dulmage).
        """
        step, only = self.rule.step, [0, 0, 0, 0]
        for child, many in self.children:
            if child.kept:
                only[self.may_have(child, small * step) + 2 * self.may_have(child, (small + 1) * step)] += many
        return not only[0] and only[1] <= parts - large and only[2] <= large and sum(only) <= parts

    def _alone(self) -> list[DomainKind]:
        """Returns the kinds of children that may have all pods of the domain."""
        held = [child for child, many in self.children for _ in range(many) if child.kept]
        return ([] if held[1:] else held) if held else [child for child, _ in self.children]

    def _takers(self, small: int) -> tuple[int, int, int]:
        """Returns how many children can have `small` steps, how many one more, and how many either."""
        low = high = either = 0
        step = self.rule.step
        for child, many in self.children:
            some, more = self.may_have(child, small * step), self.may_have(child, (small + 1) * step)
            low += many * some
            high += many * more
            either += many * (some | more)
        return low, high, either

    def _kept_evenly(self) -> int:
        if self.rule.packs:
            return reduce(or_, map(self.options, self._alone()), 1)
        return sum(1 << share for share in range(self.kept, self.cap + 1) if self.parts(share))

    # ---- soft: any shares that the children can take

    def _any_shares(self) -> int:
        shares, every = 1, (1 << (self.cap + 1)) - 1
        for child, many in self.children:
            shares = _more(shares, self.options(child), many, every, keeps=bool(child.kept))
        return shares


Options = tuple[tuple[int, int], ...]
"""The shares above 0 that children of one kind may have, as bits, and the number of such children."""


def _shares(rule: LevelRule, cap: int, options: Options) -> int:
    """Returns the shares up to `cap` that children without kept pods can take together, as bits."""
    if rule.even:
        return _evenly(rule, cap, options)
    shares, every = 1, (1 << (cap + 1)) - 1
    for bits, many in options:
        shares = _more(shares, bits, many, every, keeps=False)
    return shares


_remembered = lru_cache(maxsize=1024)(_shares)
"""Most domains are as they were when the gang before was placed, and `_shares` depends on its arguments alone."""


def _evenly(rule: LevelRule, cap: int, options: Options) -> int:
    shares = 1
    if rule.packs:
        return reduce(or_, (bits for bits, _ in options), shares)
    steps = cap // rule.step
    some, more, both = _all_takers(rule, steps, options)
    units = range(1, (steps // rule.partitions if rule.partitions else steps) + 1)
    for small in units:
        low, high, either = some[small], more[small], both[small]
        top = min(either, steps // small)
        for parts in range(1, top + 1) if rule.partitions is None else (rule.partitions,):
            least, most = max(0, parts - low), min(parts, high)
            if parts <= top and least <= most:
                shares |= _strided(most - least + 1, rule.step) << (parts * small + least) * rule.step
    return shares


def _all_takers(rule: LevelRule, steps: int, options: Options) -> tuple[list[int], list[int], list[int]]:
    """Returns three lists: for each number of steps, how many children can have it, one more, and either (`_takers`)."""
    low, either = np.zeros(steps + 2, dtype=np.int64), np.zeros(steps + 2, dtype=np.int64)
    for bits, many in options:
        can = _flags(bits, (steps + 2) * rule.step)[:: rule.step]
        low += many * can
        either[:-1] += many * (can[:-1] | can[1:])
    return low.tolist(), [*low[1:].tolist(), 0], either.tolist()


def _more(shares: int, options: int, many: int, every: int, *, keeps: bool) -> int:
    """Returns the sums of `shares` and what so many further children can have; each of them has pods if it `keeps` some."""
    for _ in range(many):
        more = (summed(shares, options) | (0 if keeps else shares)) & every
        if more == shares:
            break
        shares = more
    return shares


def _flags(bits: int, size: int) -> Bools:
    """Returns the lowest `size` bits as an array."""
    raw = np.frombuffer((bits & ((1 << size) - 1)).to_bytes(-(-size // 8), "little"), dtype=np.uint8)
    return np.unpackbits(raw, bitorder="little", count=size).astype(np.bool_)


def _strided(many: int, step: int) -> int:
    """Returns an integer with `many` one-bits, `step` bits apart."""
    return (1 << many) - 1 if step == 1 else sum(1 << at * step for at in range(many))


def runs(bits: int) -> Iterator[tuple[int, int]]:
    """Yields (position, length) of each run of one-bits, ascending."""
    at = 0
    while bits:
        zeros = (bits & -bits).bit_length() - 1
        at, bits = at + zeros, bits >> zeros
        ones = (~bits & (bits + 1)).bit_length() - 1
        yield at, ones
        at, bits = at + ones, bits >> ones


def summed(first: int, second: int) -> int:
    """Returns the set of sums of a number in `first` and a number in `second`; all sets are bits of an integer."""
    sums = 0
    for start, length in runs(second):
        stretch, done = first << start, 1
        while done < length:
            step = min(done, length - done)
            stretch |= stretch << step
            done += step
        sums |= stretch
    return sums


class DomainKinds:
    """The kind of every domain with capacity, by level and slot. The ranks of kinds do not depend on the order of slots."""

    def __init__(
        self,
        tree: Tree,
        capacities: Ints,
        rules: Sequence[LevelRule],
        total: int,
        kept: Mapping[int, int] | None = None,
    ) -> None:
        self._rules = rules
        self._total = total
        self._all: list[DomainKind] = []
        last, held = len(rules) - 1, kept or {}
        leaves = {
            slot: (capacity, held.get(slot, 0))
            for slot, capacity in enumerate(capacities.tolist())
            if capacity > 0 or slot in held
        }
        self.most = max(map(sum, leaves.values()), default=0)
        made = {
            both: self._new(DomainKind(len(self._all), last, *both, total, rules[-1]))
            for both in sorted(set(leaves.values()))
        }
        self.levels: list[dict[int, DomainKind]] = [{slot: made[both] for slot, both in leaves.items()}]
        for level in range(last - 1, -1, -1):
            parents = tree.levels[level + 1].parent.tolist()
            families: dict[int, list[int]] = {}
            for slot, kind in self.levels[0].items():
                families.setdefault(parents[slot], []).append(kind.rank)
            self.levels.insert(0, self._inner(level, families))
        self.root = self._inner(-1, {0: [kind.rank for kind in self.levels[0].values()]})[0]

    def _inner(self, level: int, families: dict[int, list[int]]) -> dict[int, DomainKind]:
        keys = {slot: tuple(sorted(ranks)) for slot, ranks in families.items()}
        made = {ranks: self._new(self._kind(level, ranks)) for ranks in sorted(set(keys.values()))}
        return {slot: made[ranks] for slot, ranks in keys.items()}

    def _kind(self, level: int, ranks: tuple[int, ...]) -> DomainKind:
        some = [(self._all[rank], many) for rank, many in Counter(ranks).items()]
        children = tuple(sorted(some, key=lambda child: (-child[0].capacity, child[0].rank)))
        capacity = sum(kind.capacity * many for kind, many in children)
        kept = sum(kind.kept * many for kind, many in children)
        return DomainKind(len(self._all), level, capacity, kept, self._total, self._rules[level + 1], children)

    def _new(self, kind: DomainKind) -> DomainKind:
        self._all.append(kind)
        return kind
