"""Which shares the children of one domain have in the best placements, by the figures of their own level alone.

A plan gives each kind of child its choices; every placement that is best at this level keeps to one of the plans, so
split.py only has to look at these, with the levels below. The cases, cheapest first:

- hard: the used units differ by one at most, so their number fixes the shares.
- plain (soft, neither range nor factor, children that take any share): among all ways to share out, one multiset of shares is
  extreme in the order of majorization, and the figures are strictly convex, so it is the only best one. Pack: the roomiest
  full, the rest on one more. Spread: water filling. Partition: water filling of the roomiest. Where as many units can take at
  least v as there are shares of at least v, each of them must.
- else a table over children and pods (and used units, for partitions) of the least figures, and back along all best ways.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from admission.engine.topology.level import Ints
from admission.engine.topology.shapes.kinds import Kind, runs
from admission.engine.topology.shapes.law import Law

NEVER = 1 << 62
CELLS = 256


class Spent(Exception):
    """The budget is used up."""


class Budget:
    """States looked at, and how many may be; of a table 256 cells count as one."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.spent = 0

    def spend(self, states: int) -> None:
        """Raises Spent where that is too much."""
        self.spent += states
        if self.spent > self._limit:
            raise Spent


@dataclass(frozen=True, slots=True)
class Plan:
    """Choices of each kind of child, largest first; 0: it may stay empty. `price`: the level's figures, as the law packs them.

    `parts`: how many units must be used, None where the price says it. `counts`: how many units have each share, if known.
    """

    price: int
    parts: int | None
    options: Mapping[Kind, tuple[int, ...]]
    counts: Mapping[int, int] | None = None


def plans(kind: Kind, share: int, budget: Budget) -> list[Plan]:
    """All plans for a share that the kind can take; several where that many numbers of used units are equally good."""
    law = kind.law
    if law.even:
        return [_hard(kind, law, share)]
    if law.plain and all(kid.whole for kid, _ in kind.kids):
        return [_plain(kind, law, share)]
    if law.width > 61:
        raise Spent
    return list(_parted(kind, law, share, budget)) if law.partitions is not None else [_table(kind, law, share, budget)]


# ---- hard


def _hard(kind: Kind, law: Law, share: int) -> Plan:
    parts = kind.parts(share)
    counts = even(law, share, parts)
    options: dict[Kind, tuple[int, ...]] = {}
    for kid, _ in kind.kids:
        bits = kind.options(kid)
        some = tuple(size for size in counts if bits >> size & 1)
        if some:
            options[kid] = some
    able = sum(many for kid, many in kind.kids if kid in options)
    if able > parts:
        options = {kid: (*some, 0) for kid, some in options.items()}
    return Plan(_price(law, counts), parts, options, counts)


def even(law: Law, share: int, parts: int) -> dict[int, int]:
    """Shares that differ by one step at most, the larger first: how many units have each."""
    step = law.step if parts > 1 else share
    small, large = divmod(share // step, parts)
    counts = {(small + 1) * step: large, small * step: parts - large}
    return {size: many for size, many in counts.items() if many}


def _price(law: Law, counts: Mapping[int, int]) -> int:
    return sum(law.price(size) * many for size, many in counts.items()) + law.missing(sum(counts.values()))


# ---- plain


def _plain(kind: Kind, law: Law, share: int) -> Plan:
    counts = _packed(kind, share)
    if not law.packs:
        parts = min(share, kind.units)
        if law.partitions is not None:
            parts = min(parts, max(law.partitions, sum(counts.values())))
        counts = _level(kind, share, parts)
    parts_asked = sum(counts.values()) if law.partitions is not None else None
    return Plan(_price(law, counts), parts_asked, _tight(kind, counts), counts)


def _packed(kind: Kind, share: int) -> Counter[int]:
    counts: Counter[int] = Counter()
    for kid, many in kind.kids:
        full = min(many, share // kid.cap)
        counts[kid.cap] += full
        share -= full * kid.cap
        if full < many and share:
            counts[share] += 1
            share = 0
        if not share:
            break
    return +counts


def _level(kind: Kind, share: int, parts: int) -> Counter[int]:
    """Water filling of the roomiest `parts` children."""
    used: list[tuple[int, int]] = []
    left = parts
    for kid, many in kind.kids:
        used.append((kid.cap, min(many, left)))
        left -= min(many, left)
    counts: Counter[int] = Counter()
    for cap, many in reversed(used):
        if cap * parts > share:
            break
        counts[cap] += many
        share, parts = share - cap * many, parts - many
    if parts:
        small, large = divmod(share, parts)
        counts[small] += parts - large
        counts[small + 1] += large
    return +counts


def _tight(kind: Kind, counts: Mapping[int, int]) -> dict[Kind, tuple[int, ...]]:
    sizes = sorted(counts, reverse=True)
    tight = set()
    need = 0
    for size in sizes:
        need += counts[size]
        if need == sum(many for kid, many in kind.kids if kid.cap >= size):
            tight.add(size)
    options: dict[Kind, tuple[int, ...]] = {}
    for kid, _ in kind.kids:
        some: list[int] = []
        for size in sizes:
            if size <= kid.cap:
                some.append(size)
                if size in tight:
                    break
        else:
            some.append(0)
        options[kid] = tuple(some)
    return {kid: some for kid, some in options.items() if some != (0,)}


# ---- tables


@dataclass(frozen=True, slots=True)
class _Choice:
    """A child and the shares above 0 that it may have, with their prices."""

    kid: Kind
    prices: tuple[tuple[int, int], ...]


def _choices(kind: Kind, law: Law, share: int) -> Iterator[_Choice]:
    for kid, many in kind.kids:
        sizes = [size for at, length in runs(kind.options(kid)) for size in range(at, at + length) if size <= share]
        if sizes:
            choice = _Choice(kid, tuple((size, law.price(size)) for size in sizes))
            for _ in range(min(many, share // sizes[0])):
                yield choice


def _table(kind: Kind, law: Law, share: int, budget: Budget) -> Plan:
    choices = list(_choices(kind, law, share))
    start = np.full(share + 1, NEVER, dtype=np.int64)
    start[0] = 0
    steps = [start]
    for choice in choices:
        budget.spend(1 + len(choice.prices) * (share + 1) // CELLS)
        before, best = steps[-1], steps[-1].copy()
        for size, price in choice.prices:
            np.minimum(best[size:], before[: share + 1 - size] + price, out=best[size:])
        steps.append(best)
    target = np.zeros(share + 1, dtype=np.bool_)
    target[share] = True
    marked = _marked(choices, steps, target)
    return Plan(int(steps[-1][share]), None, marked)


def _marked(choices: list[_Choice], steps: list[Ints], target: np.ndarray) -> dict[Kind, tuple[int, ...]]:
    """The shares on any best way to the target, walked from its end."""
    marks: dict[Kind, set[int]] = {choice.kid: set() for choice in choices}
    parted = target.ndim == 2
    for at in range(len(choices) - 1, -1, -1):
        choice, before, after = choices[at], steps[at], steps[at + 1]
        same = target & (before == after)
        if same.any():
            marks[choice.kid].add(0)
        source = same
        for size, price in choice.prices:
            here = (slice(1, None), slice(size, None)) if parted else (slice(size, None),)
            there = (slice(None, -1), slice(None, -size)) if parted else (slice(None, -size),)
            hit = target[here] & (before[there] + price == after[here])
            if hit.any():
                marks[choice.kid].add(size)
                source[there] |= hit
        target = source
    return {kid: tuple(sorted(some, reverse=True)) for kid, some in marks.items() if some and some != {0}}


def _parted(kind: Kind, law: Law, share: int, budget: Budget) -> Iterator[Plan]:
    choices = list(_choices(kind, law, share))
    most = min(len(choices), share)
    start = np.full((most + 1, share + 1), NEVER, dtype=np.int64)
    start[0, 0] = 0
    steps = [start]
    for choice in choices:
        budget.spend(1 + len(choice.prices) * start.size // CELLS)
        before, best = steps[-1], steps[-1].copy()
        for size, price in choice.prices:
            np.minimum(best[1:, size:], before[:-1, : share + 1 - size] + price, out=best[1:, size:])
        steps.append(best)
    totals = {parts: int(cost) + law.missing(parts) for parts, cost in enumerate(steps[-1][:, share]) if cost < NEVER}
    least = min(totals.values())
    for parts, price in totals.items():
        if price == least:
            target = np.zeros(start.shape, dtype=np.bool_)
            target[parts, share] = True
            yield Plan(price, parts, _marked(choices, steps, target))
