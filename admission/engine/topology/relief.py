"""How much room each of many workloads would leave to one gang, counted domain by domain, without placing anything.

A placement is a question to the whole tree; a search for victims asks after thousands of combinations. Here the gang's
largest pod set (or the workers of its group) is looked at alone, in each domain that could hold it: the required level's, or
the whole tree. A `Site` knows how much its rows hold, and how that changes with each workload that leaves; one step costs as
many rows as the workload has there. That is exact for a single pod set of plain pods, or of slices that stay on one row or in
the required domain; with a leader, inner slices or a shape it is an upper bound: a site that is short has no place for it.

`gain` bounds what a workload can ever add, after any others have left: on a row that has a/r room, b/r more adds at most
ceil(b/r), since floor(a + b) <= floor(a) + ceil(b). So gains may be added up to bound any set from above.
Called by ledger.py for the preemption engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import add, floordiv, sub

import numpy as np

from admission.engine.decision import NoPlacement
from admission.engine.model import PlacementRequest
from admission.engine.topology.allocation.booking import Bookings
from admission.engine.topology.allocation.capacity import Capacity
from admission.engine.topology.allocation.lift import taken
from admission.engine.topology.constraints import Ask, Group, groups_of
from admission.engine.topology.place import Placer
from admission.engine.topology.tree.level import Ints
from admission.engine.topology.tree.tree import Tree

Take = tuple[int, tuple[int, ...]]
"""(row, amounts of the resources that the gang's pods ask for)."""


@dataclass(slots=True, eq=False)
class Site:
    """One domain that could hold the gang. `holds`: units that fit now; `want`: units that have to. A unit is a pod, or a
    slice where one stays on a row.

    `free`, `fit` (units): by row. `takes`, `gain`: by workload that takes something here.
    """

    name: str
    want: int
    unit: tuple[int, ...]
    holds: int = 0
    free: dict[int, list[int]] = field(default_factory=dict)
    fit: dict[int, int] = field(default_factory=dict)
    takes: dict[str, list[Take]] = field(default_factory=dict)
    gain: dict[str, int] = field(default_factory=dict)

    @property
    def missing(self) -> int:
        """Units that find no room."""
        return max(0, self.want - self.holds)

    def leave(self, key: str) -> None:
        """The workload is gone."""
        self._shift(key, add)

    def come(self, key: str) -> None:
        """It is there again."""
        self._shift(key, sub)

    def _shift(self, key: str, step: Callable[[int, int], int]) -> None:
        every, fits, unit, more = self.free, self.fit, self.unit, 0
        for row, amounts in self.takes.get(key, ()):
            free = every[row] = list(map(step, every[row], amounts))
            fit = max(0, min(map(floordiv, free, unit)))
            more += fit - fits[row]
            fits[row] = fit
        self.holds += more

    def count(self, free: Sequence[int]) -> int:
        """Units that a row with this much free holds."""
        fit: int = min(map(floordiv, free, self.unit))
        return max(0, fit)


class Relief:
    """The sites of one gang that would hold it if all workloads that it was made for were gone, by path.

    `exact`: the gang fits if and only if some site holds it; else only where none does it is known that it does not.
    `together`: all that is asked for goes into that one site; else there are pod sets that are not looked at here.
    """

    def __init__(self, sites: Sequence[Site], *, exact: bool, together: bool) -> None:
        self.sites, self.exact, self.together = sites, exact, together
        self._of: dict[str, list[Site]] = {}
        for site in sites:
            for key in site.takes:
                self._of.setdefault(key, []).append(site)
        self._enough = sum(not site.missing for site in sites)

    @property
    def enough(self) -> bool:
        """Whether some site holds the gang now."""
        return self._enough > 0

    def leave(self, key: str) -> None:
        """The workload is gone."""
        for site in self._of.get(key, ()):
            short = site.missing > 0
            site.leave(key)
            self._enough += short and not site.missing

    def come(self, key: str) -> None:
        """It is there again."""
        for site in self._of.get(key, ()):
            held = not site.missing
            site.come(key)
            self._enough -= held and site.missing > 0


def relief(
    placer: Placer, bookings: Bookings, capacity: Capacity, requests: Sequence[PlacementRequest], keys: Iterable[str]
) -> Relief | None:
    """What each of the workloads would leave to the gang; None where nothing can be told."""
    group = _main(requests)
    tree = placer.tree(group)
    ask = tree if isinstance(tree, NoPlacement) else placer.ask(tree, group)
    if isinstance(tree, NoPlacement) or isinstance(ask, NoPlacement) or group.workers.previous is not None:
        return None
    alone = len(requests) == 1 and not (ask.inner or ask.shaped)
    whole = _unit(tree, ask) == ask.slice_size or (ask.required and ask.slice_level == ask.level)
    found = _sites(bookings, capacity, group.workers.flavor, ask, keys)
    return Relief(found, exact=alone and whole, together=len(group.members) == len(requests))


def _unit(tree: Tree, ask: Ask) -> int:
    """Pods that are counted together: a slice, where one must stay on a row."""
    by_row = ask.slice_level == tree.depth - 1 and tree.rows is tree.levels[-1]
    return ask.slice_size if by_row else 1


def _main(requests: Sequence[PlacementRequest]) -> Group:
    """The group of the largest pod set."""
    largest = max(requests, key=lambda request: request.count)
    groups = groups_of(request for request in requests if request.flavor == largest.flavor)
    return next(group for group in groups if any(member is largest for member in group.members))


def _sites(bookings: Bookings, capacity: Capacity, flavor: str, ask: Ask, keys: Iterable[str]) -> list[Site]:
    tree = capacity.trees[flavor]
    wanted = {tree.columns.of(name): amount for name, amount in ask.request.items() if amount}
    site_of = _site_of(tree, ask)
    usable = tree.rows.alive.copy()
    if (mask := tree.matcher.feasible(ask.wants, tree.rows.size)) is not None:
        usable &= mask
    made: dict[int, Site] = {}
    columns = [_column(tree, column) for column in wanted]
    size = _unit(tree, ask)
    unit = tuple(amount * size for amount in wanted.values())
    want = ask.need * ask.slice_size // size
    level = tree.levels[ask.level]
    for row in np.flatnonzero(usable).tolist():
        at = site_of[row]
        site = made.get(at)
        if site is None:
            name = "/".join(level.paths[at]) if ask.required else ""
            site = made[at] = Site(name, want, unit)
        free = site.free[row] = [column[row] for column in columns]
        site.fit[row] = site.count(free)
        site.holds += site.fit[row]
    for key in keys:
        _add_takes(bookings, capacity, flavor, key, tuple(wanted), made, site_of)
    return sorted((site for site in made.values() if _enough(site)), key=lambda site: site.name)


def _column(tree: Tree, column: int) -> list[int]:
    free = tree.free(column)
    found: list[int] = [0] * tree.rows.size if free is None else free.tolist()
    return found


def _site_of(tree: Tree, ask: Ask) -> list[int]:
    """By row, the slot of its domain at the required level; one for all where none is required."""
    if not ask.required:
        return [0] * tree.rows.size
    slots: Ints = np.arange(tree.rows.size, dtype=np.int64)
    if tree.rows is not tree.levels[-1]:
        slots = tree.rows.parent[slots]
    for level in range(tree.depth - 1, ask.level, -1):
        slots = tree.levels[level].parent[slots]
    found: list[int] = slots.tolist()
    return found


def _add_takes(
    bookings: Bookings,
    capacity: Capacity,
    flavor: str,
    key: str,
    wanted: tuple[int, ...],
    made: Mapping[int, Site],
    site_of: Sequence[int],
) -> None:
    by_row: dict[int, dict[int, int]] = {}
    for spot, vector in taken(bookings, capacity, key):
        row = capacity.row(flavor, spot)
        if row is not None:
            amounts = by_row.setdefault(row, {})
            for column, amount in vector:
                amounts[column] = amounts.get(column, 0) + amount
    for row, amounts in by_row.items():
        site = made.get(site_of[row])
        if site is None or row not in site.free:
            continue
        take = tuple(amounts.get(column, 0) for column in wanted)
        if any(take):
            site.takes.setdefault(key, []).append((row, take))
            most = max(-(-amount // need) for amount, need in zip(take, site.unit, strict=True))
            site.gain[key] = site.gain.get(key, 0) + most


def _enough(site: Site) -> bool:
    """Whether the gang would fit if all that take something here were gone."""
    for key in site.takes:
        site.leave(key)
    enough = site.missing == 0
    for key in site.takes:
        site.come(key)
    return enough
