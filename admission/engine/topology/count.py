"""How many pods fit where, bottom up: placement.md 5.2, 5.3 and 5.5, over all domains at once.

Counting divides free amounts by what one pod uses, one resource of all rows at a time; rolling up adds children to
parents. Numbers of removed domains are zero. place.py reads the result and picks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from admission.engine.decision import Exclusions
from admission.engine.model import Amounts
from admission.engine.topology.constraints import Ask
from admission.engine.topology.neighbours.within import one_each
from admission.engine.topology.tree.level import Bools, Ints
from admission.engine.topology.tree.tree import Tree, Values

MOST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Numbers:
    """Per domain of one level: what fits without a leader (pod, slice) and beside one (pod_l, slice_l).

    `leader` is 1 where a leader fits; None if none is requested, and then the _l arrays are the plain ones.
    """

    pod: Ints
    pod_l: Ints
    slice: Ints
    slice_l: Ints
    leader: Ints | None
    affinity: Ints | None


def count_in(amounts: Amounts, free: Mapping[int, Ints], columns: Mapping[str, int], size: int) -> Ints:
    """Returns how many pods of these amounts fit into each row."""
    fit: Ints | None = None
    for resource, amount in amounts.items():
        if amount == 0:
            continue
        have = free.get(columns.get(resource, -1))
        if have is None:
            return np.zeros(size, dtype=np.int64)
        whole = have if amount == 1 else have // amount
        fit = whole if fit is None else np.minimum(fit, whole)
    if fit is None:
        return np.full(size, MOST, dtype=np.int64)
    return np.clip(fit, 0, MOST)


def rows_below(tree: Tree, level: int, slots: Sequence[int]) -> Bools:
    """Returns which rows are in these domains of the level."""
    mask = np.zeros(tree.levels[level].size, dtype=np.bool_)
    mask[slots] = True
    hidden = () if tree.rows is tree.levels[-1] else (tree.rows,)
    for below in (*tree.levels[level + 1 :], *hidden):
        mask = mask[below.parent]
    return mask & tree.rows.alive


def _inside(tree: Tree, within: Values) -> Bools:
    """Returns which rows are in the domain of this path."""
    level = len(within) - 1
    return rows_below(tree, level, [tree.levels[level].slots[within]])


def _both(one: Bools | None, other: Bools | None) -> Bools | None:
    """Returns the rows of both masks; None for all."""
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _all(mask: Bools | None, size: int) -> Bools:
    return np.ones(size, dtype=np.bool_) if mask is None else mask


def free_amounts(tree: Tree, amounts: Amounts, *, simulate_empty: bool) -> dict[int, Ints]:
    """Free amounts of the requested resources, by column; without those that no row ever had."""
    found: dict[int, Ints] = {}
    for resource in amounts:
        column = tree.columns.index.get(resource)
        have = None if column is None else tree.free(column)
        if column is not None and have is not None:
            found[column] = have + tree.used(column) if simulate_empty else have
    return found


class Counter:
    """The count for one request on one tree."""

    def __init__(self, tree: Tree, ask: Ask, *, simulate_empty: bool = False) -> None:
        self._tree = tree
        self._ask = ask
        self._size = tree.rows.size
        self._free = free_amounts(tree, {**ask.request, **(ask.leader or {})}, simulate_empty=simulate_empty)
        self._inside = None if ask.within is None else _inside(tree, ask.within)
        self._empty = simulate_empty
        self._feasible = tree.usable(ask.wants, empty=simulate_empty)
        self._mask = _both(self._feasible, self._inside)
        self._apart = tree.neighbours.keys_apart(ask.wants.facts) if tree.by_node else []

    def levels(self) -> list[Numbers]:
        """Numbers of each level, widest first."""
        tree, ask = self._tree, self._ask
        numbers = self._rows()
        if tree.rows is not tree.levels[-1]:
            numbers = _sum(numbers, tree.rows.parent, tree.levels[-1].size, None)
        numbers = _sliced(numbers, ask, tree.depth - 1)
        found = [numbers]
        for level in range(tree.depth - 2, -1, -1):
            inner = ask.inner.get(level + 1)
            numbers = _sum(numbers, tree.levels[level + 1].parent, tree.levels[level].size, inner)
            numbers = _sliced(numbers, ask, level)
            found.append(numbers)
        found.reverse()
        return found

    def _rows(self) -> Numbers:
        """Returns the counting rows, still without slices."""
        ask = self._ask
        pod = self._spread(self._fitting(ask.request, self._mask))
        affinity = self._scores() if ask.by_affinity else None
        if ask.leader is None:
            return Numbers(pod, pod, pod, pod, None, affinity)
        mask = self._mask
        if ask.leader_wants is not None:
            mask = _both(self._tree.usable(ask.leader_wants, empty=self._empty), self._inside)
        leader = (self._fitting(ask.leader, mask) > 0).astype(np.int64)
        beside = self._fitting(ask.request, self._mask, self._without(ask.leader, leader))
        if self._apart:
            beside = np.minimum(beside, pod)
        return Numbers(pod, beside, pod, beside, leader, affinity)

    def _spread(self, fit: Ints) -> Ints:
        """Returns the counts with one pod in each domain of the keys by which the pods keep each other away."""
        if not self._apart:
            return fit
        return one_each(self._tree, fit, self._apart, self._ask.level if self._ask.required else None)

    def _without(self, leader: Amounts, where: Ints) -> dict[int, Ints]:
        columns = self._tree.columns.index
        taken = {columns[resource]: amount for resource, amount in leader.items() if resource in columns}
        return {column: have - where * taken.get(column, 0) for column, have in self._free.items()}

    def _fitting(self, amounts: Amounts, mask: Bools | None, free: Mapping[int, Ints] | None = None) -> Ints:
        fit = count_in(amounts, self._free if free is None else free, self._tree.columns.index, self._size)
        return fit if mask is None else np.where(mask, fit, 0)

    def _scores(self) -> Ints:
        scores = self._tree.matcher.scores(self._ask.wants, self._size)
        return scores if self._mask is None else np.where(self._mask, scores, 0)

    def holds(self) -> Ints:
        """Returns how many pods each row takes."""
        return self._spread(self._fitting(self._ask.request, self._mask))

    def places(self, keys: Sequence[str]) -> list[tuple[tuple[tuple[str, str], ...], int]]:
        """Returns how many pods each domain of the keys holds (a value of each), the fewest that hold all first, then
        by value."""
        fit = self.holds()
        found: dict[tuple[tuple[str, str], ...], int] = {}
        for row in np.flatnonzero(fit).tolist():
            node = self._tree.matcher.node(row)
            values = tuple(
                (key, value) for key in keys if node is not None and (value := node.labels.get(key)) is not None
            )
            if len(values) == len(keys):
                found[values] = found.get(values, 0) + int(fit[row])
        count = self._ask.count
        return sorted(found.items(), key=lambda one: (one[1] < count, abs(one[1] - count), one[0]))

    # ---- for the message of a failure

    def exclusions(self) -> Exclusions:
        """Why rows did not count: by the first test that each failed, else by location, else by the resource that ran
        short.
        """
        tree, alive = self._tree, self._tree.rows.alive
        excluded = tree.matcher.excluded(self._ask.wants, self._size, alive)
        feasible = alive if self._feasible is None else alive & self._feasible
        inside = feasible if self._inside is None else feasible & self._inside
        return Exclusions(
            total_nodes=int(alive.sum()),
            node_selector=excluded.selector,
            affinity=excluded.affinity,
            topology_domain=int(feasible.sum()) - int(inside.sum()),
            volumes=excluded.volumes,
            taints=excluded.taints,
            pods=self._near(inside),
            resources=self._short(inside),
        )

    def _near(self, inside: Bools) -> dict[str, int]:
        """By term: how many rows are closed by pods that are there, and by the gang's own pods, where it could use them."""
        tree, wants, counts = self._tree, self._ask.wants, {}
        left = tree.rows.alive & _all(tree.matcher.feasible(wants, self._size), self._size)
        for kind, key, closed in tree.neighbours.closing(wants.facts, tree, empty=self._empty):
            if number := int((left & closed).sum()):
                counts[f"{kind} {key}"] = number
            left = left & ~closed
        if self._apart:
            fit = self._fitting(self._ask.request, inside)
            if number := int(((fit > 0) & (self._spread(fit) == 0)).sum()):
                counts[f"one pod of the gang for each {' and '.join(self._apart)}"] = number
        return counts

    def _short(self, rows: Bools) -> dict[str, int]:
        """Of the rows that hold no pod: how many ran short of which resource first (the first by name of several)."""
        columns, counts = self._tree.columns.index, {}
        left = rows.copy()
        for resource in sorted(name for name, amount in self._ask.request.items() if amount):
            fit = count_in({resource: self._ask.request[resource]}, self._free, columns, self._size)
            short = left & (fit == 0)
            if number := int(short.sum()):
                counts[resource] = number
            left &= ~short
        return counts


def _sliced(numbers: Numbers, ask: Ask, level: int) -> Numbers:
    """Slices are counted at the slice level; below it there are none."""
    if level == ask.slice_level:
        size = ask.slice_size
        if size == 1:
            return replace(numbers, slice=numbers.pod, slice_l=numbers.pod_l)
        plain = numbers.pod // size
        return replace(numbers, slice=plain, slice_l=numbers.pod_l // size if numbers.leader is not None else plain)
    if level > ask.slice_level:
        none = np.zeros_like(numbers.pod)
        return replace(numbers, slice=none, slice_l=none)
    return numbers


def sum_by(parent: Ints, values: Ints, size: int) -> Ints:
    """Sum of the values by parent. Exact below 2^53."""
    return np.bincount(parent, weights=values, minlength=size).astype(np.int64)


def _sum(child: Numbers, parent: Ints, size: int, inner: int | None) -> Numbers:
    """Roll one level up; with `inner` only whole inner slices of each child count."""
    pod = child.pod // inner * inner if inner else child.pod
    total = sum_by(parent, pod, size)
    same = child.slice is child.pod and inner is None
    slices = total if same else sum_by(parent, child.slice, size)
    affinity = None if child.affinity is None else sum_by(parent, child.affinity, size)
    if child.leader is None:
        return Numbers(total, total, slices, slices, None, affinity)
    beside = child.pod_l // inner * inner if inner else child.pod_l
    hosts = child.leader > 0
    some = np.bincount(parent[hosts], minlength=size) > 0
    pod_l = np.where(some, total - _least(parent[hosts], (pod - beside)[hosts], size), 0)
    slice_l = np.where(some, slices - _least(parent[hosts], (child.slice - child.slice_l)[hosts], size), 0)
    return Numbers(total, pod_l, slices, slice_l, some.astype(np.int64), affinity)


def _least(parent: Ints, values: Ints, size: int) -> Ints:
    """Returns the smallest value by parent; MOST if there is none."""
    least = np.full(size, MOST, dtype=np.int64)
    np.minimum.at(least, parent, values)
    return least
