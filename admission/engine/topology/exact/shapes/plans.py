"""Computes the shares that the children of one domain have in best placements, by the figures of their level alone.

A plan gives each kind of child its possible shares. Every placement that is best at this level follows one of the plans, so
split.py only has to combine these with the levels below. The cases, cheapest first:

- even (a hard pack, spread or partition): shares differ by at most one step, so the number of used units determines them.
- smooth: no pod has to be outside range or factor. Shares are multiples of a step, from the minimum up to the maximum and
  the capacity of a child. Among all such multisets of shares one is extreme in the majorization order, and the figures are
  strictly convex, so this multiset is the only best one. To pack, fill the children with most capacity and put the rest on
  one more. To spread, use water filling on as many children as the minimum permits. To partition, use water filling on the
  children with most capacity. The multiset is the answer if every child with capacity for one of its shares can take this
  share. If the number of children that can take at least v equals the number of shares of at least v, each of these
  children must get such a share.
- otherwise, dynamic programming: a table of the least figures by children and pods (and used units, for partitions), traced
  back along all optimal paths.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from admission.engine.model import LevelRule
from admission.engine.topology.exact.budget import BudgetSpent
from admission.engine.topology.exact.shapes.domain_kinds import LONGEST, DomainKind
from admission.engine.topology.exact.shapes.share_sets import runs
from admission.engine.topology.tree.level import Ints

NEVER = 1 << 61
CELLS = 256
AT_ONCE = 1 << 20
FEW = 8
"""The number of shares up to which a loop is faster than one vector operation."""


class StateBudget:
    """Counts the states examined, up to a limit; 256 cells of a table count as one state."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.spent = 0

    def spend(self, states: int) -> None:
        """Counts these states. Raises BudgetSpent if the limit is exceeded."""
        wanted = self.spent + states
        self.spent = min(wanted, self._limit)
        if wanted > self._limit:
            raise BudgetSpent


class SharePlan(NamedTuple):
    """The possible shares of each kind of child (`options`), largest first; 0 means that the child may stay empty.

    `price` has the figures of the level, packed by the LevelRule. `parts` is the number of units to use; None if the price
    determines it. `counts` is the number of units with each share, if that is determined. `alone`: one child of any kind has
    the whole share.
    """

    price: int
    parts: int | None
    options: Mapping[DomainKind, tuple[int, ...]]
    counts: Mapping[int, int] | None = None
    alone: bool = False


def plans(kind: DomainKind, share: int, budget: StateBudget) -> list[SharePlan]:
    """Returns all plans for a share that the kind can take; several if several numbers of used units tie.

    Raises BudgetSpent.
    """
    rule = kind.rule
    if rule.even:
        return [_even(kind, rule, share)]
    smooth = _smooth(kind, rule, share)
    if smooth is not None:
        return [smooth]
    if rule.width > LONGEST:
        raise BudgetSpent
    return (
        list(_parted(kind, rule, share, budget)) if rule.partitions is not None else [_table(kind, rule, share, budget)]
    )


# ---- even


def _even(kind: DomainKind, rule: LevelRule, share: int) -> SharePlan:
    parts = kind.parts(share)
    counts = even(rule, share, parts)
    sizes = [size for size in counts if rule.allowed >> size & 1]
    options: dict[DomainKind, tuple[int, ...]] = {}
    able = 0
    for child, many in kind.children:
        some = tuple([size for size in sizes if child.fits(size)])
        if some:
            options[child] = some
            able += many
    if able > parts:
        options = {child: some if child.kept else (*some, 0) for child, some in options.items()}
    return SharePlan(_price(rule, counts), parts, options, counts)


def even(rule: LevelRule, share: int, parts: int) -> dict[int, int]:
    """Returns the shares of `parts` units that differ by at most one step, the larger first, with the number of units."""
    step = rule.step if parts > 1 else share
    small, large = divmod(share // step, parts)
    counts = {(small + 1) * step: large, small * step: parts - large}
    return {size: many for size, many in counts.items() if many}


def _price(rule: LevelRule, counts: Mapping[int, int]) -> int:
    return sum(rule.price(size) * many for size, many in counts.items()) + rule.missing(sum(counts.values()))


# ---- smooth


class _Able(NamedTuple):
    """Children of one kind that can have a share without pods outside range and factor.

    `most` is the largest such share in steps, `many` the number of children, `sizes` the set of such shares as bits.
    """

    most: int
    many: int
    child: DomainKind
    sizes: int


def _smooth(kind: DomainKind, rule: LevelRule, share: int) -> SharePlan | None:
    step = rule.stride
    steps, rest = divmod(share, step)
    if rest or kind.kept:
        return None
    if rule.packs and (alone := _alone(kind, rule, share)) is not None:
        return alone
    some = ((child, many, kind.options(child, share) & rule.shares_without_violation) for child, many in kind.children)
    able = [_Able((sizes.bit_length() - 1) // step, many, child, sizes) for child, many, sizes in some if sizes]
    able.sort(key=lambda option: -option.most)
    if sum(one.most * one.many for one in able) < steps:
        return None
    counts = _packed(able, steps)
    if not rule.packs:
        lowest = -(-max(rule.minimum or 1, 1) // step)
        parts = min(steps // lowest, sum(one.many for one in able))
        if rule.partitions is not None:
            parts = min(parts, max(rule.partitions, sum(counts.values())))
        if parts < sum(counts.values()):
            return None
        counts = _level(able, steps, parts)
    sized = {size * step: many for size, many in counts.items()}
    for one in able:
        if any(size <= one.most * step and not one.sizes >> size & 1 for size in sized):
            return None
    parts_requested = sum(counts.values()) if rule.partitions is not None else None
    return SharePlan(_price(rule, sized), parts_requested, _tight(able, sized, step), sized)


def _alone(kind: DomainKind, rule: LevelRule, share: int) -> SharePlan | None:
    """Returns the plan to give one child all pods, if one can have them without pods outside range and factor."""
    if not rule.shares_without_violation >> share & 1:
        return None
    able = [(child, many) for child, many in kind.children if kind.may_have(child, share)]
    if not able:
        return None
    sizes = (share,) if len(able) == 1 and able[0][1] == 1 else (share, 0)
    return SharePlan(rule.price(share), None, {child: sizes for child, _ in able}, {share: 1}, alone=True)


def _packed(able: Sequence[_Able], steps: int) -> Counter[int]:
    counts: Counter[int] = Counter()
    for one in able:
        full = min(one.many, steps // one.most)
        counts[one.most] += full
        steps -= full * one.most
        if full < one.many and steps:
            counts[steps] += 1
            steps = 0
        if not steps:
            break
    return +counts


def _level(able: Sequence[_Able], steps: int, parts: int) -> Counter[int]:
    """Returns the shares by water filling of the `parts` children with most capacity."""
    used: list[tuple[int, int]] = []
    left = parts
    for one in able:
        used.append((one.most, min(one.many, left)))
        left -= used[-1][1]
    counts: Counter[int] = Counter()
    for most, many in reversed(used):
        if most * parts > steps:
            break
        counts[most] += many
        steps, parts = steps - most * many, parts - many
    if parts:
        small, large = divmod(steps, parts)
        counts[small] += parts - large
        counts[small + 1] += large
    return +counts


def _tight(able: Sequence[_Able], counts: Mapping[int, int], step: int) -> dict[DomainKind, tuple[int, ...]]:
    """Returns the possible shares of each kind. Every child that can take a tight share must get that share or a larger one."""
    sizes = sorted(counts, reverse=True)
    tight = set()
    need = 0
    for size in sizes:
        need += counts[size]
        if need == sum(one.many for one in able if one.most * step >= size):
            tight.add(size)
    options: dict[DomainKind, tuple[int, ...]] = {}
    for one in able:
        some: list[int] = []
        for size in sizes:
            if size <= one.most * step:
                some.append(size)
                if size in tight:
                    break
        else:
            some.append(0)
        options[one.child] = tuple(some)
    return {child: some for child, some in options.items() if some != (0,)}


# ---- tables


@dataclass(frozen=True, slots=True)
class _ShareChoice:
    """A child and its possible shares above 0, with their prices, as tuples and as arrays."""

    child: DomainKind
    prices: tuple[tuple[int, int], ...]
    arrays: tuple[Ints, Ints]


def _choices(kind: DomainKind, rule: LevelRule, share: int) -> Iterator[_ShareChoice]:
    for child, many in kind.children:
        sizes = [size for at, length in runs(kind.options(child, share)) for size in range(at, at + length)]
        if sizes:
            prices = [rule.price(size) for size in sizes]
            arrays = (np.array(sizes, dtype=np.int64), np.array(prices, dtype=np.int64))
            choice = _ShareChoice(child, tuple(zip(sizes, prices, strict=True)), arrays)
            for _ in range(many if child.kept else min(many, share // sizes[0])):
                yield choice


def _table(kind: DomainKind, rule: LevelRule, share: int, budget: StateBudget) -> SharePlan:
    choices = list(_choices(kind, rule, share))
    start = np.full(share + 1, NEVER, dtype=np.int64)
    start[0] = 0
    steps = [start]
    for choice in choices:
        budget.spend(1 + len(choice.prices) * (share + 1) // CELLS)
        steps.append(_next(choice, steps[-1]))
    return SharePlan(int(steps[-1][share]), None, _marked(choices, steps, share, share + 1))


def _next(choice: _ShareChoice, before: Ints) -> Ints:
    """Returns the table with one more child. Many shares are handled in one vector operation, if memory permits."""
    best = _staying(choice, before)
    sizes, prices = choice.arrays
    most = int(sizes[-1])
    if len(sizes) > FEW and most * len(before) <= AT_ONCE:
        backwards = np.full(most, NEVER, dtype=np.int64)
        backwards[most - sizes] = prices
        wide = np.concatenate((np.full(most, NEVER, dtype=np.int64), before))
        windows = np.lib.stride_tricks.sliding_window_view(wide, most)[:-1]
        np.minimum(best, (windows + backwards).min(axis=1), out=best)
        return best
    for size, price in choice.prices:
        np.minimum(best[size:], before[: len(before) - size] + price, out=best[size:])
    return best


def _staying(choice: _ShareChoice, before: Ints) -> Ints:
    """Returns the table for the case that the child gets no pods, which is impossible if it has kept pods."""
    return np.full_like(before, NEVER) if choice.child.kept else before.copy()


def _marked(choices: list[_ShareChoice], steps: list[Ints], end: int, width: int) -> dict[DomainKind, tuple[int, ...]]:
    """Returns the shares of each kind on any optimal path to the cell `end`, traced backwards.

    If used units are counted, the table has two dimensions, and rows of the flattened table are `width` cells apart.
    """
    marks: dict[DomainKind, set[int]] = {choice.child: set() for choice in choices}
    cells = np.array([end], dtype=np.int64)
    counted = steps[0].ndim == 2
    for choice, before, after in zip(reversed(choices), steps[-2::-1], reversed(steps[1:]), strict=True):
        prior, best = before.ravel(), after.ravel()[cells]
        sizes, prices = choice.arrays
        source = cells[:, None] - (sizes + width if counted else sizes)
        fits = (cells % width)[:, None] >= sizes
        if counted:
            fits &= source >= 0
        hit = fits & (prior[np.where(fits, source, 0)] + prices == best[:, None])
        same = cells[(prior[cells] == best) & (not choice.child.kept)]
        if len(same):
            marks[choice.child].add(0)
        marks[choice.child].update(sizes[hit.any(axis=0)].tolist())
        cells = np.unique(np.concatenate((same, source[hit])))
    return {child: tuple(sorted(some, reverse=True)) for child, some in marks.items() if some and some != {0}}


def _parted(kind: DomainKind, rule: LevelRule, share: int, budget: StateBudget) -> Iterator[SharePlan]:
    choices = list(_choices(kind, rule, share))
    most = min(len(choices), share)
    start = np.full((most + 1, share + 1), NEVER, dtype=np.int64)
    start[0, 0] = 0
    steps = [start]
    for choice in choices:
        budget.spend(1 + len(choice.prices) * start.size // CELLS)
        before, best = steps[-1], _staying(choice, steps[-1])
        for size, price in choice.prices:
            np.minimum(best[1:, size:], before[:-1, : share + 1 - size] + price, out=best[1:, size:])
        steps.append(best)
    totals = {parts: int(cost) + rule.missing(parts) for parts, cost in enumerate(steps[-1][:, share]) if cost < NEVER}
    least = min(totals.values())
    for parts, price in totals.items():
        if price == least:
            end = parts * (share + 1) + share
            yield SharePlan(price, parts, _marked(choices, steps, end, share + 1))
