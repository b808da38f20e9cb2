"""Finds new places for movers, all free at the same time, and the place that they free for a gang.

The gang is placed as if the movers were gone. The movers count where they are all the same, and each gets a place that is
free beside all that runs and the other new places, and beside the gang once the movers are gone. So every new place can be
held before any mover stops. The gang and the movers are placed one after the other, and whichever has no place goes first in
the next order, since the others took what only it can use.

Each placement is a trial of its own, in which the places found before count: between two placements the ledger is as it was,
and others may use and change it. commit.py checks the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from admission.engine.cycle.solve import place
from admission.engine.features.moves.movers import Mover
from admission.engine.features.moves.plans import Move
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Assignment, PlacementRequest, PodSet, Profile
from admission.engine.pauses import no_pause
from admission.engine.topology.allocation.footprint import SparseAmounts
from admission.engine.topology.tree.level import Ints

Places = Mapping[str, Assignment]
_PODS: Final = "pods"
MOST_ORDERS: Final = 6
"""Orders in which the gang and the movers of one set are placed."""


@dataclass(frozen=True, slots=True)
class PlacesOfAll:
    """The gang's place and the moves, if all places were found; and which of the set are evicted instead."""

    gang: Places
    moves: tuple[Move, ...]
    evicted: tuple[Mover, ...] = ()


@dataclass(frozen=True, slots=True)
class NoPlace:
    """`mover` has no place beside the others; None if the gang has none."""

    mover: str | None


@dataclass(slots=True)
class _Taken:
    """The places found so far: of the movers by key, and of the gang. `gang_extra` is what the gang uses of the capacity that
    is free while the movers still run.

    `pairs` has the requests and places of the movers, the first `ahead` of them found before that of the gang.
    """

    moves: dict[str, Places] = field(default_factory=dict)
    gang: Places | None = None
    pairs: list[tuple[PlacementRequest, Assignment]] = field(default_factory=list)
    ahead: int = 0
    gang_extra: dict[str, SparseAmounts] = field(default_factory=dict)


class NewPlaces:
    """Finds the places in one ledger; answers about single movers are remembered by the shape of their requests.

    `pause` is called before each placement. `closed` is capacity that no place may use, by flavor.
    """

    def __init__(
        self,
        ledger: Ledger,
        gang: Sequence[PlacementRequest],
        pause: Callable[[], None] = no_pause,
        closed: Mapping[str, SparseAmounts] | None = None,
    ) -> None:
        self._ledger, self._gang, self._pause, self._closed = ledger, gang, pause, closed or {}
        self._alone: dict[object, bool] = {}
        self.placements = 0

    def has_other_place(self, mover: Mover) -> bool:
        """Reports whether any place is free for the mover now. If not, it cannot be part of a plan. A victim needs none."""
        if mover.claim is not None:
            return True
        shape = _shape(mover)
        has_one = self._alone.get(shape)
        if has_one is None:
            self._pause()
            has_one = self._alone[shape] = self._place(_quick(mover.requests)) is not None
        return has_one

    def find(self, movers: Sequence[Mover]) -> PlacesOfAll | NoPlace:
        """Returns places for the gang and these movers, or which of them has none.

        A mover that has left, or has another admission by now, has no place. Victims count where they are for the movers: they
        leave last.
        """
        for mover in movers:
            if self._ledger.admission(mover.key) != mover.admission:
                return NoPlace(mover.key)
        victims = tuple(sorted((one for one in movers if one.claim is not None), key=lambda mover: mover.key))
        moving = sorted((one for one in movers if one.claim is None), key=lambda mover: (-mover.size, mover.key))
        line: list[Mover | None] = [*((None,) if self._gang else ()), *moving]  # None is the gang
        tried = []
        for _ in range(MOST_ORDERS):
            places = self._in_order(line, movers)
            if isinstance(places, _Taken):
                return PlacesOfAll(
                    places.gang or {}, tuple(_move(one, places.moves[one.key]) for one in moving), victims
                )
            blamed = line[places]
            tried.append(line)
            line = [blamed, *(one for one in line if one is not blamed)]
            if line in tried:
                break
        return NoPlace(None if blamed is None else blamed.key)

    def _in_order(self, line: Sequence[Mover | None], movers: Sequence[Mover]) -> _Taken | int:
        """Returns places for all in this order, or the index of the first that has none."""
        taken = _Taken()
        for index, one in enumerate(line):
            self._pause()
            with self._counted(taken):
                place = self._place_gang(movers, taken) if one is None else self._place(one.requests)
            if place is None:
                return index
            if one is None:
                taken.gang, taken.ahead = place, len(taken.pairs)
            else:
                taken.moves[one.key] = place
                taken.pairs += [(each, place[each.pod_set.name]) for each in one.requests]
        return taken

    @contextmanager
    def _counted(self, taken: _Taken) -> Iterator[None]:
        """Opens a trial in which the places found so far count; of the gang's, only the part that the movers do not free."""
        with self._ledger.trial(), ExitStack() as after:
            self._ledger.placement.assume(taken.pairs[: taken.ahead])
            for flavor, cells in (*self._closed.items(), *taken.gang_extra.items()):
                self._ledger.shift_free(flavor, cells, -1)
                after.callback(self._ledger.shift_free, flavor, cells, 1)
            self._ledger.placement.assume(taken.pairs[taken.ahead :])
            yield

    def _place_gang(self, movers: Sequence[Mover], taken: _Taken) -> Places | None:
        """Places the gang as if the movers were gone, and notes what it uses of the capacity that is free while they run.

        Amounts are noted, not the place: in a domain of several nodes, which of them its pods take depends on what is free.
        """
        before = self._free()
        for mover in movers:
            self._ledger.simulate_removal(mover.key)
        places = self._place(self._gang)
        if places is not None:
            self._ledger.placement.assume([(one, places[one.pod_set.name]) for one in self._gang])
            taken.gang_extra = _less(before, self._free())
        return places

    def _free(self) -> dict[str, dict[int, Ints]]:
        """Returns what is free of the resources that the gang requests, by the column and row of each flavor's tree."""
        names = {_PODS, *(name for one in self._gang for name in one.pod_set.requests)}
        free_of: dict[str, dict[int, Ints]] = {}
        for flavor, tree in self._ledger.capacity.trees.items():
            for name in sorted(names):
                column = tree.columns.index.get(name)
                free = None if column is None else tree.free(column)
                if column is not None and free is not None:
                    free_of.setdefault(flavor, {})[column] = free.copy()
        return free_of

    def _place(self, requests: Sequence[PlacementRequest]) -> Places | None:
        """Returns the places; None if there are none."""
        self.placements += 1
        result = place(self._ledger, requests)
        return result.assignments if result.fits else None


def _less(
    before: Mapping[str, Mapping[int, Ints]], after: Mapping[str, Mapping[int, Ints]]
) -> dict[str, SparseAmounts]:
    """Returns by how much less is free than before, where it is less."""
    amounts = {}
    for flavor, columns in after.items():
        parts = []
        for column, free in columns.items():
            less = before[flavor][column] - free if column in before.get(flavor, {}) else -free
            rows = np.flatnonzero(less > 0)
            parts.append((np.full(len(rows), column, dtype=np.int64), rows, less[rows]))
        amounts[flavor] = SparseAmounts(*(np.concatenate(each) for each in zip(*parts, strict=True)))
    return amounts


def _move(mover: Mover, places: Places) -> Move:
    pod_sets = tuple(replace(got, assignment=places[got.name]) for got in mover.admission.pod_sets)
    return Move(mover.key, mover.admission, replace(mover.admission, pod_sets=pod_sets), mover.cost)


def _shape(mover: Mover) -> object:
    """Returns what the answer for the mover depends on: all of its requests but their names."""
    return tuple((_nameless(one.pod_set), one.flavor, one.count, one.implied, one.facts) for one in mover.requests)


def _nameless(pod_set: PodSet) -> tuple[object, ...]:
    return (
        tuple(sorted(pod_set.requests.items())),
        tuple(sorted(pod_set.exclusive.items())),
        pod_set.topology,
        tuple(sorted(pod_set.node_selector.items())),
        repr((pod_set.affinity, pod_set.preferred_affinity, pod_set.tolerations, pod_set.volumes, pod_set.gathered)),
    )


def _quick(requests: Sequence[PlacementRequest]) -> list[PlacementRequest]:
    """Returns the requests for a yes-or-no answer: a single pod set fits if and only if it fits by Kueue's rules."""
    if len(requests) > 1:
        return list(requests)
    return [replace(request, profile=Profile.COMPATIBLE) for request in requests]
