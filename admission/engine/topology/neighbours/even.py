"""Spread constraints with DoNotSchedule: how many pods of a gang each row gets so that the scheduler's filter would pass.

As PodTopologySpread of kube-scheduler has it, for pods that it would place one after the other: a pod may go to a domain where
the pods that the constraint selects, with itself, exceed those of the domain with the fewest by `max_skew` at most. Domains are
those of nodes that the pod's node selector and affinity select, here inside the domain in which the whole gang has to lie.
Nodes that are full or tainted have domains as well, so that what they lack keeps the others low.

The pods are pinned to their hosts afterwards, and a pinned pod has one domain only: the filter passes, and the evenness is kept
by this choice. With `min_domains` it counts none for the fewest then, so a host takes `max_skew` pods at most.

Called by place.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from admission.engine.model import PodFacts, SpreadTerm
from admission.engine.topology.neighbours.placed import PlacedPods
from admission.engine.topology.tree.level import Bools, Ints
from admission.engine.topology.tree.match import Wants
from admission.engine.topology.tree.tree import Tree


@dataclass(frozen=True, slots=True)
class Spread:
    """One constraint on some rows: a number for each row's domain (-1: none), the pods that are on it, whether it counts.

    `own`: 1 where the gang's pods count themselves, else 0.
    """

    term: SpreadTerm
    ids: Ints
    there: Ints
    counts: Bools
    own: int

    def of(self, rows: Ints) -> Spread:
        """Returns the same on these rows."""
        return Spread(self.term, self.ids[rows], self.there[rows], self.counts[rows], self.own)

    def domains(self) -> tuple[Ints, Bools]:
        """Returns, by number, the pods of each domain, and whether it is one."""
        size = int(self.ids.max(initial=-1)) + 1
        counted = self.counts & (self.ids >= 0)
        pods = np.bincount(self.ids[counted], weights=self.there[counted], minlength=size).astype(np.int64)
        return pods, np.bincount(self.ids[counted], minlength=size) > 0

    def fewest(self, pods: Ints, known: Bools) -> int:
        """Returns the pods of the domain with the fewest."""
        number = int(known.sum())
        return int(pods[known].min()) if number >= max(1, self.term.min_domains) else 0


def spreads(placed: PlacedPods, tree: Tree, wants: Wants, *, empty: bool) -> list[Spread]:
    """Returns the constraints of such pods on all rows."""
    facts = wants.facts
    if facts is None or not facts.even:
        return []
    size = tree.rows.size
    ids = [tree.matcher.label_ids(one.term.key, size) for one in facts.even]
    base = tree.rows.alive & np.logical_and.reduce([each >= 0 for each in ids])
    if (selected := tree.matcher.selected(wants, size)) is not None:
        base &= selected
    return [_spread(placed, tree, wants, one, number, base, empty) for one, number in zip(facts.even, ids, strict=True)]


def _spread(
    placed: PlacedPods, tree: Tree, wants: Wants, one: SpreadTerm, ids: Ints, base: Bools, empty: bool
) -> Spread:
    tolerated = tree.matcher.tolerated(wants, tree.rows.size) if one.taints else None
    facts = wants.facts or PodFacts("")
    there = placed.counted(one.term).by_row(tree, empty=empty)
    counts = base if tolerated is None else base & tolerated
    return Spread(one, ids, there, counts, int(placed.selects(one.term, facts)))


def pinned(spread: Sequence[Spread], fit: Ints) -> Ints:
    """Returns how many pods fit where a pod that is pinned to its host finds one domain, and needs more of them."""
    for one in spread:
        if one.term.min_domains > 1:
            left = one.term.max_skew - one.there
            fit = np.clip(fit, 0, np.maximum(left, 0)) if one.own else np.where(left >= 0, fit, 0)
    return fit


def evenly(spread: Sequence[Spread], fit: Ints, order: Ints, count: int) -> tuple[Ints, int]:
    """Pods by row, and their number: `count`, or less where no more can lie evenly. `order`: of equal rows the lowest first."""
    counting = [one for one in spread if one.own]
    open_ = np.logical_and.reduce([_passes(one) for one in spread if not one.own], initial=True)
    room = np.where(open_, fit, 0)
    if len(counting) == 1:
        return _poured(counting[0], room, order, count)
    return _one_by_one(counting, room, order, count)


def _passes(one: Spread) -> Bools:
    """Returns the rows of domains that are low enough, of a constraint that does not count the gang's own pods."""
    pods, known = one.domains()
    low = pods - one.fewest(pods, known) <= one.term.max_skew
    passes: Bools = np.append(low, False)[one.ids]  # the last one is for rows without the key
    return passes


def _poured(one: Spread, room: Ints, order: Ints, count: int) -> tuple[Ints, int]:
    """One constraint: the lowest domains are filled first, all to one level as far as they have room."""
    pods, known = one.domains()
    usable = room * (one.ids >= 0)
    hold = np.bincount(one.ids[one.ids >= 0], weights=usable[one.ids >= 0], minlength=len(pods)).astype(np.int64)
    highest = one.fewest(pods + hold, known) + one.term.max_skew

    def poured(level: int) -> Ints:
        return np.clip(level - pods, 0, hold)

    if int(poured(highest).sum()) < count:
        level, count = highest, int(poured(highest).sum())
    else:
        low, level = 0, highest
        while low < level:
            middle = (low + level) // 2
            low, level = (low, middle) if int(poured(middle).sum()) >= count else (middle + 1, level)
    share = poured(level)
    for number in np.flatnonzero((share > 0) & (share + pods == level))[::-1][: int(share.sum()) - count]:
        share[number] -= 1
    return _on_rows(one.ids, share, usable, order), count


def _on_rows(ids: Ints, share: Ints, room: Ints, order: Ints) -> Ints:
    """Returns the share of each domain on its rows: the largest first."""
    found = np.zeros(len(ids), dtype=np.int64)
    rows = np.flatnonzero((room > 0) & (ids >= 0))
    rows = rows[share[ids[rows]] > 0]
    rows = rows[np.lexsort((order[rows], -room[rows], ids[rows]))]
    before = np.cumsum(room[rows]) - room[rows]
    first = np.append(True, np.diff(ids[rows]) != 0)[: len(rows)]
    start = np.maximum.accumulate(np.where(first, before, 0)) if len(rows) else before
    found[rows] = np.clip(share[ids[rows]] - (before - start), 0, room[rows])
    return found


def _one_by_one(spread: Sequence[Spread], room: Ints, order: Ints, count: int) -> tuple[Ints, int]:
    """Several constraints: as the scheduler does it, one pod after the other to the lowest domains; pods that share no domain
    go in one step.
    """
    found, room = np.zeros(len(room), dtype=np.int64), room.copy()
    state = [one.domains() for one in spread]
    left = count
    while left:
        rows = np.flatnonzero(room > 0)
        score = np.zeros(len(rows), dtype=np.int64)
        for one, (pods, known) in zip(spread, state, strict=True):
            at = pods[one.ids[rows]]
            keep = (one.ids[rows] >= 0) & (at + 1 - one.fewest(pods, known) <= one.term.max_skew)
            rows, score = rows[keep], (score + at)[keep]
        if not len(rows):
            break
        rows = rows[score == score.min()]
        rows = rows[np.lexsort((order[rows], -room[rows], -found[rows]))]
        for one in spread:
            rows = rows[np.sort(np.unique(one.ids[rows], return_index=True)[1])]
        rows = rows[:left]
        found[rows] += 1
        room[rows] -= 1
        left -= len(rows)
        for one, (pods, _) in zip(spread, state, strict=True):
            pods[one.ids[rows]] += 1
    return found, count - left


def uneven(spread: Sequence[Spread], pods: Ints) -> Iterator[str]:
    """Yields the topology keys by which these pods, by row, lie less evenly than their constraints want."""
    for one in spread:
        there, known = one.domains()
        at = np.flatnonzero((pods > 0) & (one.ids >= 0))
        total = there + np.bincount(one.ids[at], weights=pods[at] * one.own, minlength=len(there)).astype(np.int64)
        if len(at) and int(total[one.ids[at]].max()) - one.fewest(total, known) > one.term.max_skew:
            yield one.term.term.key
