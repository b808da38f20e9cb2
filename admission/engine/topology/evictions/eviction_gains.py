"""The capacity that evicting each of many workloads would free for one gang, counted by domain without a placement.

A placement searches the whole tree, and a search for victims asks about thousands of combinations. So this module
considers only the gang's largest pod set (or the workers of its group), in each domain that could hold it: each domain of
the required level, or the whole tree. A `CandidateDomain` keeps the number of units that fit and updates it with each
eviction in O(rows that the workload occupies there). The count is exact for a single pod set of plain pods, or of slices
that stay on one row or in the required domain. With a leader, inner slices or placement constraints it is an upper bound:
a domain that is short certainly cannot hold the gang.

`gain` bounds the units that one eviction adds after any other evictions: if a row has room for a units (a fraction) and an
eviction frees b units, at most ceil(b) more fit, since floor(a + b) <= floor(a) + ceil(b). So the sum of gains is an upper
bound for any set of evictions. Called by queries.py for the preemption engine.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from admission.engine.decision import NoPlacement
from admission.engine.model import PlacementRequest
from admission.engine.pauses import no_pause
from admission.engine.topology.allocation.allocations import Allocations
from admission.engine.topology.allocation.capacity import Capacity
from admission.engine.topology.constraints import Group, ResolvedRequest, groups_of
from admission.engine.topology.evictions.eviction_order import EvictionOrder
from admission.engine.topology.evictions.eviction_takes import KeptTakes, UnitsByRow
from admission.engine.topology.place_group import GroupPlacer
from admission.engine.topology.tree.level import Bools, Ints
from admission.engine.topology.tree.tree import Tree

_STEP: Final = 128
"""Domains between two pauses."""


@dataclass(slots=True, eq=False)
class SliceCounts:
    """Slices, each within one part of the domain, such as a rack of a block."""

    size: int
    """The units of a slice."""
    want: int
    """How many slices the gang needs."""
    part_of: Sequence[int]
    """The part of each row."""
    holds: dict[int, int] = field(default_factory=dict)
    """The units that fit in each part now."""
    gain: dict[str, dict[int, int]] = field(default_factory=dict)
    """The bound of the units that the eviction of a workload adds in each part. So many slices at most have room."""

    @property
    def missing(self) -> int:
        """The number of slices that do not fit."""
        return max(0, self.want - sum(units // self.size for units in self.holds.values()))


@dataclass(slots=True, eq=False)
class CandidateDomain:
    """A domain that could hold the gang. A unit is a pod, or a slice if slices stay on one row."""

    name: str
    slot: int
    """That of the domain at its level."""
    want: int
    """The number of units that must fit."""
    units: UnitsByRow
    holds: int = 0
    """The number of units that fit now."""
    takes: dict[str, dict[int, int]] = field(default_factory=dict)
    """By workload that uses capacity in the domain: the rows that it uses, each with the number of its amounts in `units`."""
    gain: dict[str, int] = field(default_factory=dict)
    """By workload: a bound of the units that its eviction adds."""
    slices: SliceCounts | None = None
    """Says more if the units must come together in narrower domains."""

    @property
    def missing(self) -> int:
        """The number of units that do not fit."""
        return max(0, self.want - self.holds)

    def concerns(self, key: str) -> bool:
        """Reports whether the workload uses capacity in the domain."""
        return key in self.takes

    def evict(self, key: str) -> None:
        """Counts the workload as evicted."""
        self._shift(key, +1)

    def bring_back(self, key: str) -> None:
        """Counts the workload as running again."""
        self._shift(key, -1)

    def _shift(self, key: str, sign: int) -> None:
        takes = self.takes.get(key)
        if takes is None:
            return
        units, slices = self.units, self.slices
        for row, number in takes.items():
            more = units.shift(row, number, sign)
            if more and slices is not None:
                slices.holds[slices.part_of[row]] += more
            self.holds += more


class EvictionGains:
    """The domains that would hold the gang if all given workloads were evicted, sorted by path.

    If `exact`, the gang fits if and only if some domain holds it; otherwise only the negative answer is certain. `together`
    is True if the counted group has all pod sets of the request; otherwise some pod sets are not counted here.
    """

    def __init__(
        self, domains: Sequence[CandidateDomain], order: EvictionOrder, *, exact: bool, together: bool
    ) -> None:
        self.domains, self.exact, self.together = domains, exact, together
        self._order = order
        self._of: dict[str, list[CandidateDomain]] = {}
        for domain in domains:
            for key in domain.takes:
                self._of.setdefault(key, []).append(domain)
        self._enough = sum(not domain.missing for domain in domains)

    @property
    def enough(self) -> bool:
        """Reports whether some domain holds the gang now."""
        return self._enough > 0

    def concerns(self, key: str) -> bool:
        """Reports whether the workload uses capacity in one of the domains."""
        return key in self._of

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

    def enough_after(self, keys: Sequence[str]) -> dict[int, int]:
        """Returns the slots of the domains that hold the gang after the eviction of all `keys`, each with the length of the
        shortest beginning of `keys` that is enough.

        Nothing may be counted as evicted before the call.
        """
        return self._order.enough_after(keys)

    def after(self, keys: Sequence[str], slots: Collection[int]) -> EvictionGains:
        """Returns the gains in the domains of these slots alone, with `keys` counted as evicted.

        As long as it counts an eviction, use it alone.
        """
        domains = [domain for domain in self.domains if domain.slot in slots]
        narrowed = EvictionGains(domains, self._order, exact=self.exact, together=self.together)
        for key in keys:
            narrowed.evict(key)
        return narrowed


def eviction_gains(
    steps: GroupPlacer,
    allocations: Allocations,
    capacity: Capacity,
    requests: Sequence[PlacementRequest],
    keys: Iterable[str],
    kept: KeptTakes,
    pause: Callable[[], None] = no_pause,
) -> EvictionGains | None:
    """Returns the gains of evicting each workload in `keys`; None if they cannot be counted.

    They cannot if the request is invalid, if it has pods that stay in place, or if pod terms affect its pods. `pause` is called
    between the workloads. `kept` is what was counted for earlier questions.
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
    domains, order = _domains(allocations, capacity, group.workers.flavor, resolved, keys, kept, pause)
    return EvictionGains(domains, order, exact=alone and whole, together=len(group.members) == len(requests))


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
    kept: KeptTakes,
    pause: Callable[[], None],
) -> tuple[list[CandidateDomain], EvictionOrder]:
    """Returns the domains that would hold the gang without all these workloads."""
    tree = capacity.trees[flavor]
    wanted = {tree.columns.of(name): amount for name, amount in resolved.request.items() if amount}
    usable: Bools = tree.rows.alive.copy()
    if (mask := tree.matcher.feasible(resolved.wants, tree.rows.size)) is not None:
        usable &= mask
    size = _unit(tree, resolved)
    want = resolved.need * resolved.slice_size // size
    slots = _slots(tree, resolved.level if resolved.required else None)
    slots[~usable] = -1
    unit = [amount * size for amount in wanted.values()]
    takes = kept.of(allocations, capacity, flavor, list(wanted), unit, slots)
    units = UnitsByRow(tree, takes.numbers)
    for key in keys:
        pause()
        takes.add(key)
    pause()
    order = EvictionOrder(units, slots, takes, want)
    paths = tree.levels[resolved.level].paths if resolved.required else ()
    by_slot = {
        slot: CandidateDomain("/".join(paths[slot]) if resolved.required else "", slot, want, units, holds)
        for slot, holds in order.holds.items()
    }
    for number, (key, taken) in enumerate(takes.of_key.items()):
        if not number % _STEP:
            pause()
        for slot, rows, gain in taken.parts:
            if (domain := by_slot.get(slot)) is not None:
                domain.takes[key] = rows
                domain.gain[key] = gain
    if _by_parts(tree, resolved):
        part_of = _slots(tree, resolved.slice_level).tolist()
        for slot, domain in by_slot.items():
            pause()
            domain.slices = _slice_counts(domain, resolved, part_of, np.flatnonzero(slots == slot).tolist())
    return sorted(by_slot.values(), key=lambda domain: domain.name), order


def _slice_counts(
    domain: CandidateDomain, resolved: ResolvedRequest, part_of: Sequence[int], rows: Iterable[int]
) -> SliceCounts:
    slices = SliceCounts(resolved.slice_size, resolved.need, part_of)
    for row in rows:
        slices.holds[part_of[row]] = slices.holds.get(part_of[row], 0) + domain.units.fit(row)
    for key, takes in domain.takes.items():
        gain = slices.gain[key] = dict[int, int]()
        for row, number in takes.items():
            gain[part_of[row]] = gain.get(part_of[row], 0) + domain.units.numbers.gains[number]
    return slices


def _by_parts(tree: Tree, resolved: ResolvedRequest) -> bool:
    """Reports whether each slice must stay in a domain between the required one and a row."""
    inside = not resolved.required or resolved.slice_level > resolved.level
    return resolved.slice_size > 1 and inside and _unit(tree, resolved) == 1


def _slots(tree: Tree, at: int | None) -> Ints:
    """Returns, by row, the slot of its domain at the level; the same slot for all rows without a level."""
    if at is None:
        return np.zeros(tree.rows.size, dtype=np.int64)
    slots: Ints = np.arange(tree.rows.size, dtype=np.int64)
    if tree.rows is not tree.levels[-1]:
        slots = tree.rows.parent[slots]
    for level in range(tree.depth - 1, at, -1):
        slots = tree.levels[level].parent[slots]
    return slots
