"""How often past intervals held, and how much wider the next ones must be.

A replay does not know which workloads arrive later, which nodes fail, and which placements a topology allows. So each
workload that starts is compared with what it was told first: how its wait relates to its first and to its last start in the
replays. Each end of later intervals goes outwards by the quantile of the last `WINDOW` such ratios (split conformal
prediction), so that the wanted part of the starts is inside whatever the reason of the misses was, if the reasons stay.
Ratios are to the ends in the replays and not to those that were told: a workload that was told its interval long ago does
not widen later ones again for what they have learned meanwhile.

The confidence that is stated is what was measured: the part of the last intervals that held, once `_FEW` are known.
Each ClusterQueue has a record of its own, since one may be overloaded and others not, and so have workloads that are placed on
a topology, since other things delay them. Until `_FEW` starts of a queue are known it goes by those of all queues.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, inf
from typing import Final, TypeVar

CONFIDENCE: Final = 0.9
"""The part of the starts that is to be inside of the interval."""
_EARLY_MISSES: Final = 0.025
"""The part that may be before the interval: half of its share, since a record knows only those that have started."""
_LATE_MISSES: Final = 0.0125
"""The part that may be behind it: a quarter, since those that start late are known last, above all while the load rises."""
WINDOW: Final = 200
"""Starts that a record has, the last ones."""
ALL: Final = ""
"""Stands for all queues."""
QUEUES: Final = 32
"""Records of single queues that are kept."""
_BEYOND: Final = 1.5
"""How far beyond the worst ratio an end goes while too few are known for the quantile."""
WIDEST: Final = 150.0
"""The largest ratio."""
_LEAST: Final = 60.0
"""Seconds of the shortest wait that ratios are to: a start that was expected at once and came later is no reason for more."""
_FEW: Final = 20
"""Starts from which the record has the say about the confidence, and not the number of replays."""
_UNRELIABLE: Final = 0.75

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StartForecast:
    """When a workload starts, in epoch seconds; `latest` is None if no bound is known. `confidence` is that of the interval.

    `placed`: it needs a place on a topology. `queue` is its ClusterQueue. The rest is what the start is compared with: `made`
    is when it was forecast, `first` and `last` are the ends in the replays, and `until` is the widened latter, also where
    `latest` does not tell it. Both are infinite where something unknown decides.
    """

    earliest: float
    latest: float | None
    confidence: float
    placed: bool = False
    queue: str = ""
    made: float = 0.0
    first: float = 0.0
    last: float = inf
    until: float = inf


@dataclass(frozen=True, slots=True)
class Calibration:
    """The last starts: `early` and `late` are their ratios to the ends in the replays, `held` which were in their interval."""

    early: tuple[float, ...] = ()
    late: tuple[float, ...] = ()
    held: tuple[bool, ...] = ()

    def after(self, start: float, told: StartForecast) -> Calibration:
        """Returns the record after one more start (epoch seconds), which had been told this."""
        wait, first, last = max(0.0, start - told.made), told.first - told.made, told.last - told.made
        found = self
        if 0 < first < inf:
            found = replace(found, early=_last(self.early, min(1.0, wait / first)))
        if last < inf:
            late = min(WIDEST, 1 + max(0.0, wait - last) / max(_LEAST, last))
            found = replace(found, late=_last(self.late, late))
        if told.until < inf:
            found = replace(found, held=_last(self.held, told.earliest <= start <= told.until))
        return found

    @property
    def share(self) -> float | None:
        """The part of the last starts that were in their interval; None while too few are known."""
        return sum(self.held) / len(self.held) if len(self.held) >= _FEW else None

    @property
    def reliable(self) -> bool:
        """Reports whether the last intervals held often enough; also while too few are known."""
        return self.share is None or self.share >= _UNRELIABLE

    def confidence(self, replays: int) -> float:
        """Returns that of an interval from so many replays: of n they hold in (n - 1) / (n + 1) if all else is as in them."""
        return min(CONFIDENCE, (replays - 1) / (replays + 1) if self.share is None else self.share)

    def factors(self) -> tuple[float, float]:
        """Returns by what the ends of an interval are widened: at most 1, and at least 1."""
        earlier = [1 / max(each, 1 / WIDEST) for each in self.early]
        return 1 / _quantile(earlier, _EARLY_MISSES), _quantile(self.late, _LATE_MISSES)


RecordKey = tuple[str, bool]
"""ClusterQueue (empty: all), and whether a place on a topology is needed."""


@dataclass(frozen=True, slots=True)
class Calibrations:
    """The records: those of all queues, and of the `QUEUES` in which something started last."""

    records: Mapping[RecordKey, Calibration] = field(default_factory=dict)

    def of(self, queue: str, *, placed: bool) -> Calibration:
        """Returns the record by which such workloads of the ClusterQueue go."""
        own = self.records.get((queue, placed))
        if own is not None and own.share is not None:
            return own
        return self.records.get((ALL, placed), Calibration())

    def after(self, start: float, told: StartForecast) -> Calibrations:
        """Returns the records after one more start (epoch seconds) of a workload that had been told this."""
        records = dict(self.records)
        for key in dict.fromkeys(((ALL, told.placed), (told.queue, told.placed))):
            records[key] = records.pop(key, Calibration()).after(start, told)
        own = [key for key in records if key[0] != ALL]
        for key in own[:-QUEUES]:
            del records[key]
        return Calibrations(records)

    @property
    def held(self) -> float | None:
        """The part of the last starts that were in their interval; None if none is known."""
        both = [held for (queue, _), record in self.records.items() if queue == ALL for held in record.held]
        return sum(both) / len(both) if both else None


def widened(first: float, last: float, factors: tuple[float, float]) -> tuple[float, float]:
    """Returns an interval (seconds from now) with its ends moved outwards."""
    early, late = factors
    return first * early, last + (late - 1) * max(_LEAST, last) if late > 1 else last


def _quantile(ratios: Sequence[float], misses: float) -> float:
    """Returns the ratio (1 or more) that only this part of the next ones exceeds."""
    if (worst := max(ratios, default=1.0)) <= 1:
        return 1.0
    rank = ceil((1 - misses) * (len(ratios) + 1))
    return sorted(ratios)[rank - 1] if rank <= len(ratios) else min(WIDEST, worst * _BEYOND)


def _last(before: tuple[T, ...], more: T) -> tuple[T, ...]:
    return (*before[1 - WINDOW :], more)
