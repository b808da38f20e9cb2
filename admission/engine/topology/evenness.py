"""Places a gang whose pods have topologySpreadConstraints with DoNotSchedule. Called by place_group.py; the rule is in even.py.

With a required or preferred level, the gang gets the tightest domain of that level in which all pods can be spread evenly;
without one, the pods are spread over all nodes that they may use. Only a required domain is all that counts: beside a preferred
one, the other nodes' domains are as empty as they were. Pods with a leader, slices or placement constraints are
placed by those rules alone, and the placement is refused if it violates a spread constraint. So is one of several pod sets that
violates one only together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from admission.engine.model import Assignment
from admission.engine.topology.compatible.tree_search import Found
from admission.engine.topology.constraints import ResolvedRequest
from admission.engine.topology.count import Counter
from admission.engine.topology.neighbours.even import Spread, evenly, evenly_at_most, pinned, spreads, uneven
from admission.engine.topology.neighbours.placed import PlacedPods
from admission.engine.topology.neighbours.within import domains_of
from admission.engine.topology.tree.level import Ints
from admission.engine.topology.tree.match import Wants
from admission.engine.topology.tree.tree import Tree

_TRIES: Final = 64
"""The number of domains of a level that are tried."""


def is_plain(resolved: ResolvedRequest) -> bool:
    """Reports whether the request has no leader, slices or placement constraints that also distribute its pods."""
    return resolved.leader is None and resolved.slice_size == 1 and len(resolved.layers) == 1 and not resolved.shaped


def solve(
    placed: PlacedPods, tree: Tree, resolved: ResolvedRequest, counter: Counter, *, empty: bool
) -> tuple[Ints | None, int]:
    """Returns the pods by row (None if there is no even placement), and the most pods that could be spread evenly."""
    spread = spreads(placed, tree, resolved.wants, empty=empty)
    fit, most = pinned(spread, np.minimum(counter.holds(), resolved.count)), 0
    for rows, bound in _scopes(tree, resolved, spread, fit):
        if bound < resolved.count:
            most = max(most, bound)
            continue
        pods, number = _even_in(tree, resolved, spread, fit, rows)
        most = max(most, number)
        if number == resolved.count:
            return pods, most
    return None, most


def _even_in(
    tree: Tree, resolved: ResolvedRequest, spread: Sequence[Spread], fit: Ints, rows: Ints
) -> tuple[Ints, int]:
    """Returns the pods by row, all of them on these rows, and their number."""
    inside = np.zeros(tree.rows.size, dtype=np.int64)
    inside[rows] = fit[rows]
    if not resolved.required:
        return evenly(spread, inside, tree.rows.label, resolved.count)
    pods, number = evenly([one.of(rows) for one in spread], fit[rows], tree.rows.label[rows], resolved.count)
    inside[rows] = pods
    return inside, number


def _scopes(tree: Tree, resolved: ResolvedRequest, spread: Sequence[Spread], fit: Ints) -> Iterator[tuple[Ints, int]]:
    """Yields the rows of each domain that could hold all pods, tightest first; then all rows, unless a level is required.

    With them comes an upper bound of the pods that can be spread evenly there. Except for the first domain, which often does,
    domains with a bound below the number of pods are represented by the one with the highest bound.
    """
    levels: Sequence[int] = ()
    if resolved.required:
        levels = (resolved.level,)
    elif not resolved.unconstrained:
        levels = range(resolved.level, -1, -1)
    for level in levels:
        domains = domains_of(tree, level)
        size = tree.levels[level].size
        holds = np.bincount(domains, weights=fit, minlength=size)
        slots = np.flatnonzero(holds >= resolved.count)
        slots = slots[np.lexsort((tree.levels[level].label[slots], holds[slots]))]
        if resolved.required and not len(slots):
            yield (
                np.zeros(0, dtype=np.int64),
                int(evenly_at_most(spread, fit, domains, size, tree.rows.alive, closed=True).max(initial=0)),
            )
        for slot in slots[:1].tolist():
            yield np.flatnonzero((domains == slot) & tree.rows.alive), resolved.count
        if len(slots) < 2:
            continue
        bound = evenly_at_most(spread, fit, domains, size, tree.rows.alive, closed=resolved.required)
        slots = slots[1:]
        fewer = bound[slots] < resolved.count
        if fewer.any():
            yield np.zeros(0, dtype=np.int64), int(bound[slots[fewer]].max())
        for slot in slots[~fewer][: _TRIES - 1].tolist():
            yield np.flatnonzero((domains == slot) & tree.rows.alive), int(bound[slot])
    if not resolved.required:
        yield np.flatnonzero(tree.rows.alive), resolved.count


def in_domains(tree: Tree, pods: Ints) -> Found:
    """Returns the pods, given by row, summed by lowest domain."""
    level, used = tree.levels[-1], np.flatnonzero(pods)
    ids = used if tree.rows is level else tree.rows.parent[used]
    total = np.bincount(ids, weights=pods[used], minlength=level.size).astype(np.int64)
    ids = np.unique(ids)
    ids = ids[np.argsort(level.label[ids], kind="stable")]
    return Found(ids, total[ids], np.zeros(len(ids), dtype=np.int64))


def broken(
    placed: PlacedPods, tree: Tree, resolved: ResolvedRequest, assignment: Assignment, *, empty: bool
) -> str | None:
    """Returns the topology key of a spread constraint that the assignment violates; None if it violates none."""
    part = Part(resolved.wants, resolved.level if resolved.required else None, assignment)
    return broken_together(placed, tree, [part], empty=empty)


@dataclass(frozen=True, slots=True)
class Part:
    """A pod set's assignment, what its pods require of nodes, and the level of which one domain must hold them, if any."""

    wants: Wants
    level: int | None
    assignment: Assignment


def broken_together(placed: PlacedPods, tree: Tree, parts: Sequence[Part], *, empty: bool) -> str | None:
    """Returns the topology key of a spread constraint that one of the parts violates beside the others, or None."""
    by_row = [_by_row(tree, part.assignment) for part in parts]
    for part, pods in zip(parts, by_row, strict=True):
        rows = _rows(tree, part.level, pods)
        for one in spreads(placed, tree, part.wants, empty=empty):
            others = [
                count
                for other, count in zip(parts, by_row, strict=True)
                if other is not part and other.wants.facts and placed.selects(one.term.term, other.wants.facts)
            ]
            beside = replace(one, there=sum(others, start=one.there)).of(rows)
            if (key := next(uneven([beside], pods[rows]), None)) is not None:
                return key
    return None


def _by_row(tree: Tree, assignment: Assignment) -> Ints:
    pods = np.zeros(tree.rows.size, dtype=np.int64)
    for domain in assignment.domains:
        if named := tree.rows_named(domain.values):
            pods[named[0]] += domain.count
    return pods


def _rows(tree: Tree, level: int | None, pods: Ints) -> Ints:
    """Returns the rows among which the pods are spread: those of their domain of the level, or all."""
    if level is None:
        return np.flatnonzero(tree.rows.alive)
    domains = domains_of(tree, level)
    return np.flatnonzero(np.isin(domains, domains[pods > 0]) & tree.rows.alive)
