"""Kinds of domains: arrangements under the rules of a gang, which have the same answer for every share.

What a kind can take and costs depends on its arrangement and the rules alone, so it is remembered between gangs. The rules are
those of a gang of `scope` pods, a power of two: gangs of about the same size share their kinds. Created by shaping.py; read by
plans.py, split.py and fallback.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, reduce
from operator import or_
from typing import Final, NamedTuple

from admission.engine.model import LevelRule
from admission.engine.topology.exact.shapes.arrangements import Arrangement, ArrangementBook, Arrangements
from admission.engine.topology.exact.shapes.share_sets import any_shares, even_shares, up_to

_LEAST_SCOPE: Final = 256
_FIRST: Final = 16
"""The first number of pods up to which the shares that a kind can take are computed; then twice as many."""
LONGEST: Final = 60
"""The number of bits of a level's figures up to which a table of them can be computed (plans.py)."""
MOST_REMEMBERED: Final = 25_000
"""The number of arrangements, kinds and answers that are remembered, which take about 450 bytes each."""
MOST_RULES: Final = 64
"""The number of rules under which they are remembered."""

KindShare = tuple["DomainKind", int]
Families = tuple[tuple["DomainKind", int], ...]
"""The kinds of the children, those with most capacity first, each with the number of such children."""

ROOT: Final = -1
"""The level of the whole tree."""


class PlanFigures(NamedTuple):
    """The least price of the plans for a share, and the states that were examined to find them."""

    price: int
    states: int


class KnownCost(NamedTuple):
    """The least cost below a domain for a share, the states that were examined at the level of its children, and what was read.

    `plans` and `costs` have the kinds and shares whose plans and costs were read.
    """

    cost: int
    states: int
    plans: tuple[KindShare, ...]
    costs: tuple[KindShare, ...]


class DomainKind:
    """A class of equivalent domains of one level.

    `capacity` is the number of pods that fit, in addition to the `kept` pods that stay; a share includes these, so it is at
    least `kept`. `rule` is the rule of the children's level (at the lowest level, of the level itself), and `shift` the bit at
    which its figures begin in a cost. `units` is the number of children that can have pods; `lowest`: they are of the lowest
    level. `whole`: the kind can take every share up to its capacity, including 0. `plans` and `costs` have what is known by
    share (split.py).
    """

    __slots__ = (
        "_bits",
        "_book",
        "_children",
        "_limit",
        "_parts",
        "arrangement",
        "cap",
        "capacity",
        "costs",
        "kept",
        "level",
        "lowest",
        "plans",
        "rule",
        "shift",
        "units",
        "whole",
    )

    def __init__(self, book: KindBook, arrangement: Arrangement, level: int) -> None:
        self._book = book
        self.arrangement = arrangement
        self.level = level
        self.capacity, self.kept = arrangement.capacity, arrangement.kept
        self.cap = min(self.capacity + self.kept, book.scope)
        below = min(level + 1, len(book.rules) - 1)
        self.rule, self.shift = book.rules[below], book.shifts[below]
        self.units = arrangement.units
        self.lowest = level + 2 == len(book.rules)
        self.whole = not self.kept and (not arrangement.children or book.free_below[below])
        self.plans: dict[int, PlanFigures] = {}
        self.costs: dict[int, KnownCost] = {}
        self._children: Families | None = None
        self._parts: dict[int, int] = {}
        self._bits, self._limit = 0, -1

    @property
    def children(self) -> Families:
        """The kinds of the children that can have pods, those with most capacity first."""
        if self._children is None:
            kind, level = self._book.kind, self.level + 1
            self._children = tuple([(kind(child, level), many) for child, many in self.arrangement.children])
        return self._children

    def takes(self, most: int) -> int:
        """Returns the shares up to `most` that the kind can take, as bits."""
        if most > self._limit:
            limit = min(self.cap, max(most, 2 * self._limit, _FIRST))
            every = up_to(limit) - ((1 << min(self.kept, limit + 1)) - 1)
            self._bits = every if self.whole or not self.units else self._shares(limit) & every
            self._limit = self._book.scope if limit == self.cap else limit
        return self._bits & up_to(most)

    def _shares(self, limit: int) -> int:
        if self.kept and self.rule.even:
            return self._kept_evenly(limit)
        if self.rule.even:
            return even_shares(
                self.rule, limit, tuple([(self.options(child, limit), many) for child, many in self.children])
            )
        return any_shares(
            limit, ((self.options(child, limit), many, bool(child.kept)) for child, many in self.children)
        )

    def fits(self, share: int) -> bool:
        """Reports whether the kind can take the share."""
        if share > self.cap or share < self.kept:
            return False
        if not share or self.whole or not self.units:
            return True
        if self.rule.even:
            return self.parts(share) > 0
        if not self.kept and any(self.may_have(child, share) for child, _ in self.children):
            return True
        return bool(self.takes(share) >> share & 1)

    def options(self, child: DomainKind, most: int) -> int:
        """Returns the shares above 0 and up to `most` that a child may have, as bits."""
        return child.takes(most) & self.rule.allowed

    def may_have(self, child: DomainKind, share: int) -> bool:
        """Reports whether a child may have this share."""
        return bool(self.rule.allowed >> share & 1) and child.fits(share)

    def know(self, share: int, cost: KnownCost) -> KnownCost:
        """Remembers the cost of a share."""
        self._book.answers += 1
        self.costs[share] = cost
        return cost

    def know_plans(self, share: int, figures: PlanFigures) -> None:
        """Remembers the figures of the plans for a share."""
        self._book.answers += 1
        self.plans[share] = figures

    # ---- hard: the used units differ by one step at most

    def parts(self, share: int) -> int:
        """Returns the number of units to which a hard constraint distributes the share; 0 if that is impossible."""
        parts = self._parts.get(share)
        if parts is None:
            parts = self._parts[share] = self._units_for(share)
        return parts

    def _units_for(self, share: int) -> int:
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
        size, step, allowed = small * self.rule.step, self.rule.step, self.rule.allowed
        few, lots = allowed >> size & 1, allowed >> (size + step) & 1
        if self.lowest and not self.kept:
            low, high = few and self._larger(size), lots and self._larger(size + step)
            return low, high, low if few else high
        for child, many in self.children:
            some, more = few and child.fits(size), lots and child.fits(size + step)
            low += many if some else 0
            high += many if more else 0
            either += many if some or more else 0
        return low, high, either

    def _larger(self, share: int) -> int:
        """Returns how many children of the lowest level have capacity for the share."""
        number = 0
        for child, many in self.children:
            if child.capacity < share:
                break
            number += many
        return number

    def _kept_evenly(self, limit: int) -> int:
        if self.rule.packs:
            return reduce(or_, (self.options(child, limit) for child in self._alone()), 1)
        return sum(1 << share for share in range(self.kept, limit + 1) if self.parts(share))


class KindBook:
    """The kinds under the rules of a gang, given widest level first.

    `shifts` is the bit at which each level's figures begin in a cost: above the stranded slots and all lower levels.
    """

    def __init__(self, rules: Sequence[LevelRule], most: int) -> None:
        self.rules = rules
        self.scope = rules[0].total
        self.free_below = [all(rule.free for rule in self.rules[level:]) for level in range(len(rules))]
        shift = 1 + (2 * most * self.scope).bit_length()
        self.shifts: list[int] = []
        for rule in reversed(self.rules):
            self.shifts.insert(0, shift)
            shift += rule.width
        self.answers = 0
        """The number of plans and costs that the kinds know."""
        self.kinds: dict[Arrangement, DomainKind] = {}

    def kind(self, arrangement: Arrangement, level: int) -> DomainKind:
        """Returns the kind of the domains of the level that have this arrangement."""
        kind = self.kinds.get(arrangement)
        if kind is None:
            kind = self.kinds[arrangement] = DomainKind(self, arrangement, level)
        return kind

    @property
    def size(self) -> int:
        """How many kinds and answers it remembers."""
        return len(self.kinds) + self.answers


class KindMemory:
    """The books of arrangements and kinds. What it remembers is bounded; it begins anew when it is full."""

    def __init__(self) -> None:
        self._arrangements = ArrangementBook()
        self._books: dict[tuple[tuple[LevelRule, ...], int], KindBook] = {}

    def arrangements(self) -> ArrangementBook:
        """Returns the book of arrangements for one placement, in which all its arrangements must be."""
        if self.size > MOST_REMEMBERED or self.rules > MOST_RULES:
            self._arrangements, self._books = ArrangementBook(), {}
        return self._arrangements

    @property
    def size(self) -> int:
        """How many arrangements, kinds and answers it remembers."""
        return len(self._arrangements.all) + sum(book.size for book in self._books.values())

    @property
    def rules(self) -> int:
        """Under how many rules it remembers them."""
        return len(self._books)

    def book(self, rules: Sequence[LevelRule], most: int) -> KindBook:
        """Returns the book of kinds under these rules, if no lowest domain can have more than `most` pods."""
        key = _scoped(tuple(rules)), 1 << most.bit_length()
        book = self._books.get(key)
        if book is None:
            book = self._books[key] = KindBook(*key)
        return book


@lru_cache(maxsize=256)
def _scoped(rules: tuple[LevelRule, ...]) -> tuple[LevelRule, ...]:
    """Returns the rules of the smallest scope that has enough pods, of the gang itself if figures would become too long."""
    scope = max(_LEAST_SCOPE, 1 << (rules[0].total - 1).bit_length())
    scoped = tuple([replace(rule, total=scope) for rule in rules])
    return scoped if all(rule.width <= LONGEST for rule in scoped) else rules


class DomainKinds:
    """The kind of every domain of a tree that can have pods; `root` is that of the whole tree.

    `rules` are the gang's, for the scope of the kinds.
    """

    def __init__(self, book: KindBook, arrangements: Arrangements) -> None:
        self._book = book
        self._arrangements = arrangements
        self.rules = book.rules
        self.root = book.kind(arrangements.root, ROOT)

    def among(self, level: int, slots: Iterable[int]) -> dict[int, DomainKind]:
        """Returns the kinds of those of these domains of the level that can have pods, by slot; the root is slot 0."""
        if level == ROOT:
            return {0: self.root}
        kind, known = self._book.kind, self._book.kinds
        some = self._arrangements.among(level, slots)
        return {slot: known.get(arrangement) or kind(arrangement, level) for slot, arrangement in some}

    def of(self, level: int) -> Iterator[tuple[int, DomainKind]]:
        """Yields the slots of the level's domains that can have pods, each with its kind; the root is slot 0."""
        if level == ROOT:
            yield 0, self.root
            return
        for slot, arrangement in self._arrangements.of(level):
            yield slot, self._book.kind(arrangement, level)
