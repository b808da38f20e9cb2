"""The capacity that evicting each of many workloads would free for one gang, counted by domain without a placement.

A placement searches the whole tree, and a search for victims asks about thousands of combinations. So this module
considers only the gang's largest pod set (or the workers of its group), in each domain that could hold it: each domain of
the required level, or the whole tree. A `CandidateDomain` keeps the number of units that fit and updates it with each
eviction in O(rows that the workload occupies there). The count is exact for a single pod set of plain pods, or of slices
that stay on one row or in the required domain. With a leader, inner slices or placement constraints it is an upper bound:
a domain that is short certainly cannot hold the gang.

`gain` bounds the units that one eviction adds after any other evictions: if a row has room for a units (a fraction) and an
eviction frees b units, at most ceil(b) more fit, since floor(a + b) <= floor(a) + ceil(b). So the sum of gains is an upper
bound for any set of evictions. Called by ledger.py for the preemption engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import add, floordiv, sub
from typing import Final

import numpy as np

from admission.engine.decision import NoPlacement
from admission.engine.model import PlacementRequest
from admission.engine.pauses import no_pause
from admission.engine.topology.allocation.allocations import Allocations
from admission.engine.topology.allocation.capacity import Capacity
from admission.engine.topology.allocation.simulated_removal import taken
from admission.engine.topology.constraints import Group, ResolvedRequest, groups_of
from admission.engine.topology.place_group import GroupPlacer
from admission.engine.topology.tree.level import Ints
from admission.engine.topology.tree.tree import Tree

_STEP: Final = 128
"""Rows between two pauses."""

Take = tuple[int, tuple[int, ...]]
"""(row, amounts that a workload uses there of the resources that the gang's pods request)."""


@dataclass(slots=True, eq=False)
class SliceCounts:
    """Slices of `size` units of which the gang needs `want`, each within one part of the domain, such as a rack of a block.

    `part_of` has the part of each row, `holds` the units that fit in each part now, and `gain` the bound of the units that the
    eviction of a workload adds there. So many slices at most have room.
    """

    size: int
    want: int
    part_of: dict[int, int] = field(default_factory=dict)
    holds: dict[int, int] = field(default_factory=dict)
    gain: dict[str, dict[int, int]] = field(default_factory=dict)

    @property
    def missing(self) -> int:
        """The number of slices that do not fit."""
        return max(0, self.want - sum(units // self.size for units in self.holds.values()))


@dataclass(slots=True, eq=False)
class CandidateDomain:
    """A domain that could hold the gang. A unit is a pod, or a slice if slices stay on one row.

    `holds` is the number of units that fit now, `want` the number that must fit, `unit` the amounts that one unit requests.
    `free` (amounts) and `fit` (units) are keyed by row; `takes` (usage) and `gain` (a bound of the units that an eviction
    adds) by the key of a workload that uses capacity in the domain. `slices` says more if the units must come together in
    narrower domains.
    """

    name: str
    want: int
    unit: tuple[int, ...]
    holds: int = 0
    free: dict[int, list[int]] = field(default_factory=dict)
    fit: dict[int, int] = field(default_factory=dict)
    takes: dict[str, list[Take]] = field(default_factory=dict)
    gain: dict[str, int] = field(default_factory=dict)
    slices: SliceCounts | None = None

    @property
    def missing(self) -> int:
        """The number of units that do not fit."""
        return max(0, self.want - self.holds)

    def evict(self, key: str) -> None:
        """Counts the workload as evicted."""
        self._shift(key, add)

    def bring_back(self, key: str) -> None:
        """Counts the workload as running again."""
        self._shift(key, sub)

    def _shift(self, key: str, step: Callable[[int, int], int]) -> None:
        every, fits, unit, more, slices = self.free, self.fit, self.unit, 0, self.slices
        for row, amounts in self.takes.get(key, ()):
            free = every[row] = list(map(step, every[row], amounts))
            fit = max(0, min(map(floordiv, free, unit)))
            if slices is not None:
                slices.holds[slices.part_of[row]] += fit - fits[row]
            more += fit - fits[row]
            fits[row] = fit
        self.holds += more

    def count(self, free: Sequence[int]) -> int:
        """Returns how many units fit on a row with these free amounts."""
        fit: int = min(map(floordiv, free, self.unit))
        return max(0, fit)


class EvictionGains:
    """The domains that would hold the gang if all given workloads were evicted, sorted by path.

    If `exact`, the gang fits if and only if some domain holds it; otherwise only the negative answer is certain. `together`
    is True if the counted group has all pod sets of the request; otherwise some pod sets are not counted here.
    """

    def __init__(self, domains: Sequence[CandidateDomain], *, exact: bool, together: bool) -> None:
        self.domains, self.exact, self.together = domains, exact, together
        self._of: dict[str, list[CandidateDomain]] = {}
        for domain in domains:
            for key in domain.takes:
                self._of.setdefault(key, []).append(domain)
        self._enough = sum(not domain.missing for domain in domains)

    @property
    def enough(self) -> bool:
        """Reports whether some domain holds the gang now."""
        return self._enough > 0

    def evict(self, key: str) -> None:
        """Counts the workload as evicted."""
        for domain in self._of.get(key, ()):
            short = domain.missing > 0
            domain.evict(key)
            self._enough += short and not domain.missing

    def bring_back(self, key: str) -> None:
        """Counts the workload as running again."""
        for domain in self._of.get(key, ()):
            held = not domain.missing
            domain.bring_back(key)
            self._enough -= held and domain.missing > 0


def eviction_gains(
    steps: GroupPlacer,
    allocations: Allocations,
    capacity: Capacity,
    requests: Sequence[PlacementRequest],
    keys: Iterable[str],
    pause: Callable[[], None] = no_pause,
) -> EvictionGains | None:
    """Returns the gains of evicting each workload in `keys`; None if they cannot be counted.

    They cannot if the request is invalid, if it has pods that stay in place, or if pod terms affect its pods. `pause` is called
    between the rows.
    """
    group = _main(requests)
    tree = steps.tree(group)
    resolved = tree if isinstance(tree, NoPlacement) else steps.resolve(tree, group)
    if isinstance(tree, NoPlacement) or isinstance(resolved, NoPlacement) or group.workers.previous is not None:
        return None
    if any(capacity.placed.concerns(request.facts) for request in requests):
        return None  # an eviction may make nodes usable that a pod term excludes now
    alone = len(requests) == 1 and not (resolved.inner or resolved.shaped)
    whole = _unit(tree, resolved) == resolved.slice_size or (
        resolved.required and resolved.slice_level == resolved.level
    )
    found = _domains(allocations, capacity, group.workers.flavor, resolved, keys, pause)
    return EvictionGains(found, exact=alone and whole, together=len(group.members) == len(requests))


def _unit(tree: Tree, resolved: ResolvedRequest) -> int:
    """Returns the pods of one unit: the slice size if a slice must stay on one row, else 1."""
    by_row = resolved.slice_level == tree.depth - 1 and tree.rows is tree.levels[-1]
    return resolved.slice_size if by_row else 1


def _main(requests: Sequence[PlacementRequest]) -> Group:
    """Returns the group that contains the largest pod set."""
    largest = max(requests, key=lambda request: request.count)
    groups = groups_of(request for request in requests if request.flavor == largest.flavor)
    return next(group for group in groups if any(member is largest for member in group.members))


def _domains(
    allocations: Allocations,
    capacity: Capacity,
    flavor: str,
    resolved: ResolvedRequest,
    keys: Iterable[str],
    pause: Callable[[], None],
) -> list[CandidateDomain]:
    tree = capacity.trees[flavor]
    wanted = {tree.columns.of(name): amount for name, amount in resolved.request.items() if amount}
    domain_of = _domain_of(tree, resolved.level if resolved.required else None)
    part_of = _domain_of(tree, resolved.slice_level) if _by_parts(tree, resolved) else None
    usable = tree.rows.alive.copy()
    if (mask := tree.matcher.feasible(resolved.wants, tree.rows.size)) is not None:
        usable &= mask
    made: dict[int, CandidateDomain] = {}
    size = _unit(tree, resolved)
    unit = tuple(amount * size for amount in wanted.values())
    want = resolved.need * resolved.slice_size // size
    level = tree.levels[resolved.level]
    rows: Ints = np.flatnonzero(usable)
    columns = [_column(tree, column)[rows] for column in wanted]
    fits = _fits(columns, unit, len(rows)).tolist()
    amounts = map(list, zip(*(column.tolist() for column in columns), strict=True))
    for row, free, fit in zip(rows.tolist(), amounts, fits, strict=True):
        if not row % _STEP:
            pause()
        at = domain_of[row]
        domain = made.get(at)
        if domain is None:
            name = "/".join(level.paths[at]) if resolved.required else ""
            slices = None if part_of is None else SliceCounts(resolved.slice_size, resolved.need)
            domain = made[at] = CandidateDomain(name, want, unit, slices=slices)
        domain.free[row] = free
        domain.fit[row] = fit
        domain.holds += fit
        if part_of is not None and domain.slices is not None:
            part = domain.slices.part_of[row] = part_of[row]
            domain.slices.holds[part] = domain.slices.holds.get(part, 0) + fit
    for key in keys:
        _add_takes(allocations, capacity, flavor, key, tuple(wanted), made, domain_of)
    found = []
    for domain in made.values():
        pause()
        if _enough(domain):
            found.append(domain)
    return sorted(found, key=lambda domain: domain.name)


def _column(tree: Tree, column: int) -> Ints:
    free = tree.free(column)
    return np.zeros(tree.rows.size, dtype=np.int64) if free is None else free


def _fits(columns: Sequence[Ints], unit: Sequence[int], size: int) -> Ints:
    """Returns how many units fit on each row."""
    fit: Ints = np.full(size, np.iinfo(np.int64).max)
    for free, amount in zip(columns, unit, strict=True):
        fit = np.minimum(fit, free // amount)
    return np.maximum(fit, 0)


def _by_parts(tree: Tree, resolved: ResolvedRequest) -> bool:
    """Reports whether each slice must stay in a domain between the required one and a row."""
    inside = not resolved.required or resolved.slice_level > resolved.level
    return resolved.slice_size > 1 and inside and _unit(tree, resolved) == 1


def _domain_of(tree: Tree, at: int | None) -> list[int]:
    """Returns, by row, the slot of its domain at the level; the same slot for all rows without a level."""
    if at is None:
        return [0] * tree.rows.size
    slots: Ints = np.arange(tree.rows.size, dtype=np.int64)
    if tree.rows is not tree.levels[-1]:
        slots = tree.rows.parent[slots]
    for level in range(tree.depth - 1, at, -1):
        slots = tree.levels[level].parent[slots]
    found: list[int] = slots.tolist()
    return found


def _add_takes(
    allocations: Allocations,
    capacity: Capacity,
    flavor: str,
    key: str,
    wanted: tuple[int, ...],
    made: Mapping[int, CandidateDomain],
    domain_of: Sequence[int],
) -> None:
    by_row: dict[int, dict[int, int]] = {}
    for spot, vector in taken(allocations, capacity, key):
        row = capacity.row(flavor, spot)
        if row is not None:
            amounts = by_row.setdefault(row, {})
            for column, amount in vector:
                amounts[column] = amounts.get(column, 0) + amount
    for row, amounts in by_row.items():
        domain = made.get(domain_of[row])
        if domain is None or row not in domain.free:
            continue
        take = tuple(amounts.get(column, 0) for column in wanted)
        if any(take):
            domain.takes.setdefault(key, []).append((row, take))
            most = max(-(-amount // need) for amount, need in zip(take, domain.unit, strict=True))
            domain.gain[key] = domain.gain.get(key, 0) + most
            if (slices := domain.slices) is not None:
                gain, part = slices.gain.setdefault(key, {}), slices.part_of[row]
                gain[part] = gain.get(part, 0) + most


def _enough(domain: CandidateDomain) -> bool:
    """Reports whether the gang would fit if every workload in `takes` were evicted."""
    if not domain.missing:
        return True
    freed: dict[int, Sequence[int]] = {}
    for takes in domain.takes.values():
        for row, amounts in takes:
            before = freed.get(row)
            freed[row] = amounts if before is None else list(map(add, before, amounts))
    more = 0
    for row, taken_there in freed.items():
        more += domain.count(list(map(add, domain.free[row], taken_there))) - domain.fit[row]
    return more >= domain.missing
