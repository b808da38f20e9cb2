"""Finds new places for movers, all free at the same time, beside the place that their going frees for a gang.

The gang is placed as if the movers were gone. The movers count where they are all the same, and each gets a place that is
free beside all that runs, the gang's place, and the other new places. So every new place can be held before any mover stops.
All of it happens in a trial of the ledger, which is unchanged afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from admission.engine.cycle.solve import place
from admission.engine.ledger import Ledger
from admission.engine.model import Assignment, PlacementRequest, PodSet, Profile
from admission.engine.moves.movers import Mover
from admission.engine.moves.plans import Move

Places = Mapping[str, Assignment]
MOST_ORDERS: Final = 3
"""Orders in which the movers of one set are placed."""


@dataclass(frozen=True, slots=True)
class Held:
    """The gang's place and the moves, if all places were found; and which of the set are evicted instead."""

    gang: Places
    moves: tuple[Move, ...]
    evicted: tuple[Mover, ...] = ()


@dataclass(frozen=True, slots=True)
class NotHeld:
    """`mover` has no place beside the others; None if the gang has none."""

    mover: str | None


class Holding:
    """Finds the places in one ledger; answers about single movers are remembered by the shape of their requests."""

    def __init__(self, ledger: Ledger, gang: Sequence[PlacementRequest]) -> None:
        self._ledger, self._gang = ledger, gang
        self._alone: dict[object, bool] = {}
        self.placements = 0

    def has_other_place(self, mover: Mover) -> bool:
        """Reports whether any place is free for the mover now. If not, it cannot be part of a plan. A victim needs none."""
        if mover.claim is not None:
            return True
        shape = _shape(mover)
        found = self._alone.get(shape)
        if found is None:
            found = self._alone[shape] = self._place(_quick(mover.requests)) is not None
        return found

    def hold(self, movers: Sequence[Mover]) -> Held | NotHeld:
        """Returns places for the gang and these movers, or which of them has none.

        The gang is placed first, then last, since its place may be what only a mover can use, and the reverse. A mover that has
        left, or has another admission by now, has no place. Victims count where they are for the movers: they leave last.
        """
        for mover in movers:
            if self._ledger.admission(mover.key) != mover.admission:
                return NotHeld(mover.key)
        first = self._held(movers, gang_first=True)
        if isinstance(first, Held) or first.mover is None:
            return first
        last = self._held(movers, gang_first=False)
        return last if isinstance(last, Held) else first

    def _held(self, movers: Sequence[Mover], *, gang_first: bool) -> Held | NotHeld:
        """Tries several orders: a mover without a place goes first in the next one, since others took what only it can use."""
        line = sorted((one for one in movers if one.claim is None), key=lambda mover: (-mover.size, mover.key))
        victims = tuple(sorted((one for one in movers if one.claim is not None), key=lambda one: one.key))
        found = self._in_order(line, victims, gang_first=gang_first)
        for _ in range(MOST_ORDERS - 1):
            if isinstance(found, Held) or found.mover is None or found.mover == line[0].key:
                return found
            blamed = found.mover
            line.sort(key=lambda mover: mover.key != blamed)
            found = self._in_order(line, victims, gang_first=gang_first)
        return found

    def _in_order(self, line: Sequence[Mover], victims: tuple[Mover, ...], *, gang_first: bool) -> Held | NotHeld:
        with self._ledger.trial():
            gang = self._place_gang((*line, *victims)) if gang_first else None
            if gang_first and gang is None:
                return NotHeld(None)
            moves: list[Move] = []
            for mover in line:
                places = self._place(mover.requests)
                if places is None:
                    return NotHeld(mover.key)
                moves.append(_move(mover, places))
            gang = gang if gang_first else self._place_gang((*line, *victims))
        return NotHeld(None) if gang is None else Held(gang, tuple(moves), victims)

    def _place_gang(self, line: Sequence[Mover]) -> Places | None:
        """Places the gang as if the movers were gone, which count again afterwards."""
        for mover in line:
            self._ledger.simulate_removal(mover.key)
        found = self._place(self._gang)
        for mover in line:
            self._ledger.undo_removal(mover.key)
        return found

    def _place(self, requests: Sequence[PlacementRequest]) -> Places | None:
        """Returns the places, which count until the open trial ends; None if there are none."""
        self.placements += 1
        result = place(self._ledger, requests)
        if not result.fits:
            return None
        if self._ledger.journal.recording:
            self._ledger.placement.assume([(one, result.assignments[one.pod_set.name]) for one in requests])
        return result.assignments


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
