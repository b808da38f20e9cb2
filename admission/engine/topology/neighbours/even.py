"""Distributes a gang's pods over rows so that DoNotSchedule topology spread constraints hold.

The rule is that of kube-scheduler's PodTopologySpread filter for pods placed one after the other: a pod may use a domain if
the pods there that the constraint selects, including itself, exceed the smallest count of any domain by at most `max_skew`.
The domains are those of the nodes that the pod's node selector and affinity select, here inside the domain that must hold
the whole gang, if the gang requires one. Full or tainted nodes count as domains too, so their low counts limit the others.

The pods are pinned to their hosts afterwards. The filter sees a single domain for a pinned pod and passes, so only this
choice keeps the pods even. With `min_domains` above 1 the filter takes 0 as the smallest count for a pinned pod, so a host
gets at most `max_skew` pods.

Called by evenness.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from admission.engine.model import PodFacts, SpreadTerm
from admission.engine.topology.neighbours.placed import PlacedPods
from admission.engine.topology.tree.level import Bools, Ints
from admission.engine.topology.tree.match import Wants
from admission.engine.topology.tree.tree import Tree

_MANY: Final = np.iinfo(np.int64).max // 2


@dataclass(frozen=True, slots=True)
class Spread:
    """One constraint on some rows. By row: the number of its domain (`ids`, -1: none), the selected pods on it (`there`), and
    whether it counts for the domain (`counts`).

    `own` is 1 if the constraint selects the gang's own pods, else 0.
    """

    term: SpreadTerm
    ids: Ints
    there: Ints
    counts: Bools
    own: int

    def of(self, rows: Ints) -> Spread:
        """Returns the constraint restricted to these rows, with domains numbered anew in the same order if the rows are few."""
        ids = self.ids[rows]
        if len(rows) < len(self.ids) // 8:
            domains, ids = np.unique(ids, return_inverse=True)
            ids = ids - int(len(domains) > 0 and domains[0] < 0)
        return Spread(self.term, ids, self.there[rows], self.counts[rows], self.own)

    def domains(self) -> tuple[Ints, Bools]:
        """Returns, by domain number, the selected pods of the domain, and whether a counting row belongs to it."""
        size = int(self.ids.max(initial=-1)) + 1
        counted = self.counts & (self.ids >= 0)
        pods = np.bincount(self.ids[counted], weights=self.there[counted], minlength=size).astype(np.int64)
        return pods, np.bincount(self.ids[counted], minlength=size) > 0

    def fewest(self, pods: Ints, existing: Bools) -> int:
        """Returns the smallest count of any domain in `existing`; 0 if there are fewer domains than `min_domains`."""
        number = int(existing.sum())
        return int(pods[existing].min()) if number >= max(1, self.term.min_domains) else 0


def spreads(placed: PlacedPods, tree: Tree, wants: Wants, *, empty: bool) -> list[Spread]:
    """Returns the spread constraints of pods with these requirements, on all rows of the tree."""
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
    placed: PlacedPods, tree: Tree, wants: Wants, term: SpreadTerm, ids: Ints, base: Bools, empty: bool
) -> Spread:
    tolerated = tree.matcher.tolerated(wants, tree.rows.size) if term.taints else None
    facts = wants.facts or PodFacts("")
    there = placed.counted(term.term).by_row(tree, empty=empty)
    counts = base if tolerated is None else base & tolerated
    return Spread(term, ids, there, counts, int(placed.selects(term.term, facts)))


def pinned(spread: Sequence[Spread], fit: Ints) -> Ints:
    """Returns `fit`, limited where `min_domains` makes the filter count a pinned pod against a smallest count of 0."""
    for one in spread:
        if one.term.min_domains > 1:
            left = one.term.max_skew - one.there
            fit = np.clip(fit, 0, np.maximum(left, 0)) if one.own else np.where(left >= 0, fit, 0)
    return fit


def evenly_at_most(spread: Sequence[Spread], fit: Ints, scopes: Ints, size: int, alive: Bools, *, closed: bool) -> Ints:
    """Returns an upper bound of what `evenly` places in each of `size` scopes, given the scope of each row.

    Constraints count if each of their domains lies within one scope, those with the smallest domains first: what one of them
    permits limits the rows of the next one. With `closed`, only domains of the same scope limit each other.
    """
    bound = np.bincount(scopes, weights=fit, minlength=size)
    finest = sorted((one for one in spread if one.own), key=lambda constraint: -int(constraint.ids.max(initial=-1)))
    for one in finest:
        rows = np.flatnonzero(alive & (one.ids >= 0))
        ids, within = one.ids[rows], scopes[rows]
        home = np.full(int(one.ids.max(initial=-1)) + 1, size, dtype=np.int64)  # `size`: no scope
        home[ids] = within
        if np.array_equal(home[ids], within):
            hold = np.bincount(ids, weights=fit[rows], minlength=len(home)).astype(np.int64)
            permitted = _permitted(one, hold, home, size, closed)
            fit = np.minimum(fit, np.append(permitted, 0)[one.ids])
            bound = np.minimum(bound, np.bincount(home, weights=permitted, minlength=size + 1)[:size])
    return bound.astype(np.int64)


def _permitted(spread: Spread, hold: Ints, home: Ints, size: int, closed: bool) -> Ints:
    """Returns the most pods that each domain may get, given what it can hold and the scope in which it lies."""
    pods, known = spread.domains()
    known &= home < size
    fewest = np.full(size + 1, _MANY)
    np.minimum.at(fewest, home[known], (pods + hold)[known])
    if closed:
        fewest[np.bincount(home[known], minlength=size + 1) < max(1, spread.term.min_domains)] = 0
    else:
        # The gang leaves the domains of other scopes as they are.
        there = np.full(size + 1, _MANY)
        np.minimum.at(there, home[known], pods[known])
        least = int(np.argmin(there))
        others = np.full(size + 1, there[least])
        others[least] = np.delete(there, least).min(initial=_MANY)
        fewest = np.minimum(fewest, others) if int(known.sum()) >= max(1, spread.term.min_domains) else fewest * 0
    return np.clip(fewest[home] + spread.term.max_skew - pods, 0, hold)


def evenly(spread: Sequence[Spread], fit: Ints, order: Ints, count: int) -> tuple[Ints, int]:
    """Returns the pods by row and their number: `count`, or fewer if no more pods can be spread evenly.

    `fit` is the number of pods that fit by row; ties between rows break by the smaller value of `order`.
    """
    counting = [one for one in spread if one.own]
    open_ = np.logical_and.reduce([_passes(one) for one in spread if not one.own], initial=True)
    room = np.where(open_, fit, 0)
    if len(counting) == 1:
        return _water_filled(counting[0], room, order, count)
    return _one_by_one(counting, room, order, count)


def _passes(constraint: Spread) -> Bools:
    """Returns the mask of rows whose domain passes a constraint that does not select the gang's own pods."""
    pods, known = constraint.domains()
    low = pods - constraint.fewest(pods, known) <= constraint.term.max_skew
    passes: Bools = np.append(low, False)[constraint.ids]  # the last cell is for rows without the key
    return passes


def _water_filled(constraint: Spread, room: Ints, order: Ints, count: int) -> tuple[Ints, int]:
    """Distributes by one constraint: water filling, which raises the domains with the fewest pods to one level first."""
    pods, known = constraint.domains()
    usable = room * (constraint.ids >= 0)
    hold = np.bincount(
        constraint.ids[constraint.ids >= 0], weights=usable[constraint.ids >= 0], minlength=len(pods)
    ).astype(np.int64)
    highest = constraint.fewest(pods + hold, known) + constraint.term.max_skew

    def filled_to(level: int) -> Ints:
        return np.clip(level - pods, 0, hold)

    if int(filled_to(highest).sum()) < count:
        level, count = highest, int(filled_to(highest).sum())
    else:
        low, level = 0, highest
        while low < level:
            middle = (low + level) // 2
            low, level = (low, middle) if int(filled_to(middle).sum()) >= count else (middle + 1, level)
    share = filled_to(level)
    for number in np.flatnonzero((share > 0) & (share + pods == level))[::-1][: int(share.sum()) - count]:
        share[number] -= 1
    return _on_rows(constraint.ids, share, usable, order), count


def _on_rows(ids: Ints, share: Ints, room: Ints, order: Ints) -> Ints:
    """Returns the pods by row, given the share of each domain; the rows with most capacity are used first."""
    pods = np.zeros(len(ids), dtype=np.int64)
    rows = np.flatnonzero((room > 0) & (ids >= 0))
    rows = rows[share[ids[rows]] > 0]
    rows = rows[np.lexsort((order[rows], -room[rows], ids[rows]))]
    before = np.cumsum(room[rows]) - room[rows]
    first = np.append(True, np.diff(ids[rows]) != 0)[: len(rows)]
    start = np.maximum.accumulate(np.where(first, before, 0)) if len(rows) else before
    pods[rows] = np.clip(share[ids[rows]] - (before - start), 0, room[rows])
    return pods


def _one_by_one(spread: Sequence[Spread], room: Ints, order: Ints, count: int) -> tuple[Ints, int]:
    """Distributes by several constraints like the scheduler: one pod after the other, each to the domains with the fewest pods.

    Pods that share no domain are placed in one step.
    """
    named = np.logical_and.reduce([one.ids >= 0 for one in spread], initial=True)
    shares, room = np.zeros(len(room), dtype=np.int64), np.where(named, room, 0)
    state = [one.domains() for one in spread]
    left = count
    while left:
        rows = np.flatnonzero(room > 0)
        score = np.zeros(len(rows), dtype=np.int64)
        for one, (pods, known) in zip(spread, state, strict=True):
            at = pods[one.ids[rows]]
            keep = at + 1 - one.fewest(pods, known) <= one.term.max_skew
            rows, score = rows[keep], (score + at)[keep]
        if not len(rows):
            break
        rows = rows[score == score.min()]
        rows = rows[np.lexsort((order[rows], -room[rows], -shares[rows]))]
        for one in spread:
            rows = rows[np.sort(np.unique(one.ids[rows], return_index=True)[1])]
        rows = rows[:left]
        shares[rows] += 1
        room[rows] -= 1
        left -= len(rows)
        for one, (pods, _) in zip(spread, state, strict=True):
            pods[one.ids[rows]] += 1
    return shares, count - left


def uneven(spread: Sequence[Spread], pods: Ints) -> Iterator[str]:
    """Yields the topology keys of the constraints that these pods, given by row, violate."""
    for one in spread:
        there, known = one.domains()
        at = np.flatnonzero((pods > 0) & (one.ids >= 0))
        if one.term.min_domains > 1 and len(at) and int((one.there + pods * one.own)[at].max()) > one.term.max_skew:
            yield one.term.term.key  # see `pinned`
            continue
        total = there + np.bincount(one.ids[at], weights=pods[at] * one.own, minlength=len(there)).astype(np.int64)
        if len(at) and int(total[one.ids[at]].max()) - one.fewest(total, known) > one.term.max_skew:
            yield one.term.term.key
