"""Counts how many pods fit into every domain, bottom up: placement.md 5.2, 5.3 and 5.5.

Each row's free amounts are divided by the requests of one pod, vectorized over all rows, one resource at a time; the
counts of children are then added up for their parents. Removed domains count zero. Called by place_group.py and the solvers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from admission.engine.decision import Exclusions
from admission.engine.model import Amounts
from admission.engine.topology.constraints import ResolvedRequest
from admission.engine.topology.neighbours.within import one_each
from admission.engine.topology.tree.level import Bools, Ints
from admission.engine.topology.tree.tree import Tree
from admission.engine.topology.tree.tree_spec import Values

MOST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Numbers:
    """The counts of one level, by slot. If no leader is requested, the counts beside a leader are the plain ones."""

    pod: Ints
    """Pods that fit."""
    pod_l: Ints
    """Pods that fit beside a leader."""
    slice: Ints
    """Slices that fit."""
    slice_l: Ints
    """Slices that fit beside a leader."""
    leader: Ints | None
    """1 where a leader fits; None if no leader is requested."""
    affinity: Ints | None
    """The sum of the weights of matching preferred node affinity terms; None if these are not considered."""


def count_in(amounts: Amounts, free: Mapping[int, Ints], columns: Mapping[str, int], size: int) -> Ints:
    """Returns how many pods that request `amounts` fit into each row, at most MOST.

    `free` maps columns to free amounts by row, `columns` resource names to columns; `size` is the number of rows.
    """
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
    counts: Ints = np.maximum(fit, 0)
    return np.minimum(counts, MOST, out=counts)


def rows_below(tree: Tree, level: int, slots: Sequence[int]) -> Bools:
    """Returns the mask of the live rows inside these domains of the level."""
    mask = np.zeros(tree.levels[level].size, dtype=np.bool_)
    mask[slots] = True
    hidden = () if tree.rows is tree.levels[-1] else (tree.rows,)
    for below in (*tree.levels[level + 1 :], *hidden):
        mask = mask[below.parent]
    return mask & tree.rows.alive


def _inside(tree: Tree, within: Values) -> Bools:
    """Returns the mask of the live rows inside the domain of this path."""
    level = len(within) - 1
    return rows_below(tree, level, [tree.levels[level].slots[within]])


def _both(first: Bools | None, second: Bools | None) -> Bools | None:
    """Returns the intersection of two masks; None stands for all rows."""
    if first is None or second is None:
        return second if first is None else first
    return first & second


def _all(mask: Bools | None, size: int) -> Bools:
    return np.ones(size, dtype=np.bool_) if mask is None else mask


def free_amounts(tree: Tree, amounts: Amounts, *, simulate_empty: bool) -> dict[int, Ints]:
    """Returns the free amounts by row of the named resources, by column; resources that no row ever had are left out.

    With `simulate_empty` the usage of admitted workloads counts as free.
    """
    free: dict[int, Ints] = {}
    for resource in amounts:
        column = tree.columns.index.get(resource)
        have = None if column is None else tree.free(column)
        if column is not None and have is not None:
            free[column] = have + tree.used(column) if simulate_empty else have
    return free


class Counter:
    """The count for one request on one tree."""

    def __init__(self, tree: Tree, resolved: ResolvedRequest, *, simulate_empty: bool = False) -> None:
        self._tree = tree
        self._resolved = resolved
        self._size = tree.rows.size
        self._free = free_amounts(tree, {**resolved.request, **(resolved.leader or {})}, simulate_empty=simulate_empty)
        self._inside = None if resolved.within is None else _inside(tree, resolved.within)
        self._empty = simulate_empty
        self._feasible = tree.usable(resolved.wants, empty=simulate_empty)
        self._mask = _both(self._feasible, self._inside)
        self._apart = tree.neighbours.keys_apart(resolved.wants.facts) if tree.by_node else []

    def levels(self) -> list[Numbers]:
        """Returns the counts of each level, widest first."""
        tree, resolved = self._tree, self._resolved
        numbers = self.rows()
        if tree.rows is not tree.levels[-1]:
            numbers = _sum(numbers, tree.rows.parent, tree.levels[-1].size, None)
        numbers = _sliced(numbers, resolved, tree.depth - 1)
        by_level = [numbers]
        for level in range(tree.depth - 2, -1, -1):
            inner = resolved.inner.get(level + 1)
            numbers = _sum(numbers, tree.levels[level + 1].parent, tree.levels[level].size, inner)
            numbers = _sliced(numbers, resolved, level)
            by_level.append(numbers)
        by_level.reverse()
        return by_level

    def rows(self) -> Numbers:
        """Returns the counts of the rows, before slices are considered."""
        resolved = self._resolved
        pod = self.holds()
        affinity = self._scores() if resolved.by_affinity else None
        if resolved.leader is None:
            return Numbers(pod, pod, pod, pod, None, affinity)
        mask = self._mask
        if resolved.leader_wants is not None:
            mask = _both(self._tree.usable(resolved.leader_wants, empty=self._empty), self._inside)
        leader = (self._fitting(resolved.leader, mask) > 0).astype(np.int64)
        beside = self._limited(self._fitting(resolved.request, self._mask, self._without(resolved.leader, leader)))
        if self._apart:
            beside = np.minimum(beside, pod)
        return Numbers(pod, beside, pod, beside, leader, affinity)

    def _spread(self, fit: Ints) -> Ints:
        """Returns the counts limited to one pod per domain of each key by which the gang's anti-affinity separates its pods."""
        if not self._apart:
            return fit
        return one_each(self._tree, fit, self._apart, self._resolved.level if self._resolved.required else None)

    def _without(self, leader: Amounts, where: Ints) -> dict[int, Ints]:
        columns = self._tree.columns.index
        taken = {columns[resource]: amount for resource, amount in leader.items() if resource in columns}
        return {column: have - where * taken.get(column, 0) for column, have in self._free.items()}

    def _fitting(self, amounts: Amounts, mask: Bools | None, free: Mapping[int, Ints] | None = None) -> Ints:
        fit = count_in(amounts, self._free if free is None else free, self._tree.columns.index, self._size)
        return fit if mask is None else np.where(mask, fit, 0)

    def _scores(self) -> Ints:
        scores = self._tree.matcher.scores(self._resolved.wants, self._size)
        return scores if self._mask is None else np.where(self._mask, scores, 0)

    def holds(self) -> Ints:
        """Returns how many pods fit into each row."""
        return self._spread(self._limited(self._fitting(self._resolved.request, self._mask)))

    def _limited(self, fit: Ints) -> Ints:
        most = self._resolved.most_per_host
        return np.minimum(fit, most) if most else fit

    def places(self, keys: Sequence[str]) -> list[tuple[tuple[tuple[str, str], ...], int]]:
        """Returns the domains of the label keys, as (key, value) pairs, each with the number of pods that fit.

        Domains that hold all pods come first, the tightest first; ties break by value.
        """
        fit = self.holds()
        labelled: dict[tuple[tuple[str, str], ...], int] = {}
        for row in np.flatnonzero(fit).tolist():
            node = self._tree.matcher.node(row)
            values = tuple(
                (key, value) for key in keys if node is not None and (value := node.labels.get(key)) is not None
            )
            if len(values) == len(keys):
                labelled[values] = labelled.get(values, 0) + int(fit[row])
        count = self._resolved.count
        return sorted(labelled.items(), key=lambda place: (place[1] < count, abs(place[1] - count), place[0]))

    # ---- for the message of a failure

    def exclusions(self) -> Exclusions:
        """Returns the number of rows that were excluded, by cause.

        Each row counts once, under the first test that it failed: taints, selector, affinity, volumes, the domain searched,
        pod terms, and last the resource that was short.
        """
        tree, alive = self._tree, self._tree.rows.alive
        excluded = tree.matcher.excluded(self._resolved.wants, self._size, alive)
        feasible = alive if self._feasible is None else alive & self._feasible
        inside = feasible if self._inside is None else feasible & self._inside
        outside = 0 if self._inside is None else np.count_nonzero(feasible) - np.count_nonzero(inside)
        return Exclusions(
            total_nodes=int(np.count_nonzero(alive)),
            node_selector=excluded.selector,
            affinity=excluded.affinity,
            topology_domain=int(outside),
            volumes=excluded.volumes,
            taints=excluded.taints,
            more_taints=excluded.more_taints,
            beyond=excluded.beyond,
            pods=self._near(inside),
            resources=self._short(inside),
        )

    def _near(self, inside: Bools) -> dict[str, int]:
        """Returns, by pod term, how many otherwise usable rows it excludes, because of existing pods or of the gang's own."""
        tree, wants, counts = self._tree, self._resolved.wants, {}
        left: Bools | None = None
        for kind, key, closed in tree.neighbours.closing(wants.facts, tree, empty=self._empty):
            if left is None:
                left = tree.rows.alive & _all(tree.matcher.feasible(wants, self._size), self._size)
            if number := int(np.count_nonzero(left & closed)):
                counts[f"{kind} {key}"] = number
            left = left & ~closed
        if self._apart:
            fit = self._fitting(self._resolved.request, inside)
            if number := int(np.count_nonzero((fit > 0) & (self._spread(fit) == 0))):
                counts[f"one pod of the gang for each {' and '.join(self._apart)}"] = number
        return counts

    def _short(self, rows: Bools) -> dict[str, int]:
        """Returns, by resource, how many of these rows hold no pod for lack of it; the first resource by name counts."""
        columns, counts, left = self._tree.columns.index, {}, rows
        for resource, amount in sorted(self._resolved.request.items()):
            if not amount:
                continue
            have = self._free.get(columns.get(resource, -1))
            short = left if have is None else left & (have < amount)
            if number := int(np.count_nonzero(short)):
                counts[resource] = number
                left = left & ~short
        return counts


def _sliced(numbers: Numbers, resolved: ResolvedRequest, level: int) -> Numbers:
    """Returns the counts with slices: computed at the slice level, zero below it, and left as they are above it."""
    if level == resolved.slice_level:
        size = resolved.slice_size
        if size == 1:
            return replace(numbers, slice=numbers.pod, slice_l=numbers.pod_l)
        plain = numbers.pod // size
        return replace(numbers, slice=plain, slice_l=numbers.pod_l // size if numbers.leader is not None else plain)
    if level > resolved.slice_level:
        none = np.zeros_like(numbers.pod)
        return replace(numbers, slice=none, slice_l=none)
    return numbers


def sum_by(parent: Ints, values: Ints, size: int) -> Ints:
    """Returns the sums of `values` by parent slot, for `size` parents. Exact below 2^53."""
    return np.bincount(parent, weights=values, minlength=size).astype(np.int64)


def _sum(child: Numbers, parent: Ints, size: int, inner: int | None) -> Numbers:
    """Returns the counts of the parents; with `inner`, only whole inner slices of that size count in each child."""
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
    """Returns the smallest value of each parent's children; MOST for a parent without children."""
    least = np.full(size, MOST, dtype=np.int64)
    np.minimum.at(least, parent, values)
    return least
