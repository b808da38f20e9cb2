"""How often past intervals held, how much wider the next ones must be, and what confidence is stated.

A replay does not know which workloads arrive later, which nodes fail, and which placements a topology allows, and little of
run times at first. So each workload that starts is compared with what it was told first: how its wait relates to its first and
to its last start in the replays. Each end of later intervals goes outwards by a quantile of the last `WINDOW` such ratios
(conformal prediction), whatever the reason of the misses was. `_LATE` and `_EARLY`, ratios from generated traces, count as
well: while little is known they make intervals wide, and among `WINDOW` measured ones they weigh little. Ratios are to the ends
in the replays and not to those that were told: a workload that was told its interval long ago does not widen later ones again
for what they have learned meanwhile.

The quantile itself is corrected by what it led to: the more of the last intervals missed than were to miss, the fewer the next
ones leave outside, and the other way round (adaptive conformal inference). So the wanted part holds in the long run also where
waits become longer all the time. A workload that still waits when its interval is over is a miss from then on, not only once
it starts: under overload those that start late are known last.

The confidence that is stated is measured: the part of the last `_LATELY` intervals that held, with `_BELIEF` times `CONFIDENCE`
added as a first belief.

Each ClusterQueue has a record of its own, since one may be overloaded and others not, and so have workloads that are placed on
a topology, since other things delay them. Until `_FEW` starts of a queue are known it goes by those of all queues.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import floor, inf
from typing import Final, TypeVar

CONFIDENCE: Final = 0.9
"""The part of the starts that is to be inside of the interval."""
_LATE_PART: Final = 0.65
"""The part of the misses that may be behind the interval; the others may be before it."""
_MISSES: Final = 0.09
"""The part that the ends leave outside while no interval has been compared."""
_CORRECTION: Final = 0.02
"""How much that part changes with each start that was inside or outside."""
_LEAST_MISSES, _MOST_MISSES = 0.01, 0.12
WINDOW: Final = 200
"""Starts that a record has, the last ones."""
ALL: Final = ""
"""Stands for all queues."""
QUEUES: Final = 32
"""Records of single queues that are kept."""
_LATE: Final = (*[1.0] * 14, 1.5, 2.0, 2.5, 3.5, 5.0, 8.0)
"""Ratios to the last start in the replays that count beside those that were measured."""
_EARLY: Final = (*[1.0] * 17, 0.7, 0.4, 0.2)
"""The same to the first start."""
WIDEST: Final = 150.0
"""The largest ratio."""
_LEAST: Final = 60.0
"""Seconds of the shortest wait that ratios are to: a start that was expected at once and came later is no reason for more."""
_FEW: Final = 40
"""Starts from which a queue goes by its own record."""
_LATELY: Final = 40
"""Intervals whose held part is the confidence of the next ones."""
_BELIEF: Final = 6
_JUDGED: Final = 20
"""Starts from which a record may be unreliable."""
_UNRELIABLE: Final = 0.75

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StartForecast:
    """When a workload starts, in epoch seconds, and what its start is compared with."""

    earliest: float
    latest: float | None
    """None if no bound is known."""
    confidence: float
    """That of the interval."""
    placed: bool = False
    """Whether it needs a place on a topology."""
    queue: str = ""
    """Its ClusterQueue."""
    made: float = 0.0
    """When it was forecast."""
    first: float = 0.0
    """The earlier end in the replays; infinite where something unknown decides."""
    last: float = inf
    """The later end in the replays; infinite where something unknown decides."""
    until: float = inf
    """The widened later end, also where `latest` does not tell it."""
    missed: bool = False
    """Whether it was counted as a miss while the workload still waited."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """How the last starts were forecast."""

    early: tuple[float, ...] = ()
    """The ratios of the starts to the earlier end in the replays."""
    late: tuple[float, ...] = ()
    """Their ratios to the later end."""
    held: tuple[bool, ...] = ()
    """Which were in their interval."""

    def after(self, start: float, told: StartForecast) -> Calibration:
        """Returns the record after one more start (epoch seconds), which had been told this."""
        wait, first, last = max(0.0, start - told.made), told.first - told.made, told.last - told.made
        calibration = self
        if 0 < first < inf:
            calibration = replace(calibration, early=_last(self.early, min(1.0, wait / first)))
        if last < inf:
            late = min(WIDEST, 1 + max(0.0, wait - last) / max(_LEAST, last))
            calibration = replace(calibration, late=_last(self.late, late))
        if told.until < inf and not told.missed:
            calibration = replace(calibration, held=_last(self.held, told.earliest <= start <= told.until))
        return calibration

    def after_miss(self) -> Calibration:
        """Returns the record after the interval of a workload has passed that still waits."""
        return replace(self, held=_last(self.held, False))

    @property
    def reliable(self) -> bool:
        """Reports whether the last intervals held often enough; also while too few are known."""
        return len(self.held) < _JUDGED or self.confidence >= _UNRELIABLE

    @property
    def confidence(self) -> float:
        """That of the next interval."""
        lately = self.held[-_LATELY:]
        return (_BELIEF * CONFIDENCE + sum(lately)) / (_BELIEF + len(lately))

    def factors(self) -> tuple[float, float]:
        """Returns by what the ends of an interval are widened: at most 1, and at least 1."""
        more = (1 - CONFIDENCE) * len(self.held) - self.held.count(False)
        misses = min(_MOST_MISSES, max(_LEAST_MISSES, _MISSES + _CORRECTION * more))
        earlier = [1 / max(each, 1 / WIDEST) for each in (*_EARLY, *self.early)]
        late = _quantile([*_LATE, *self.late], misses * _LATE_PART)
        return 1 / _quantile(earlier, misses * (1 - _LATE_PART)), late


RecordKey = tuple[str, bool]
"""ClusterQueue (empty: all), and whether a place on a topology is needed."""


@dataclass(frozen=True, slots=True)
class Calibrations:
    """The records: those of all queues, and of the `QUEUES` in which something started last."""

    records: Mapping[RecordKey, Calibration] = field(default_factory=dict)

    def of(self, queue: str, *, placed: bool) -> Calibration:
        """Returns the record by which such workloads of the ClusterQueue go."""
        own = self.records.get((queue, placed))
        if own is not None and len(own.held) >= _FEW:
            return own
        return self.records.get((ALL, placed), Calibration())

    def after(self, start: float, told: StartForecast) -> Calibrations:
        """Returns the records after one more start (epoch seconds) of a workload that had been told this."""
        return self._changed(told, lambda record: record.after(start, told))

    def after_miss(self, told: StartForecast) -> Calibrations:
        """Returns the records after the interval of a workload has passed that still waits and had been told this."""
        return self._changed(told, Calibration.after_miss) if told.until < inf else self

    def _changed(self, told: StartForecast, change: Callable[[Calibration], Calibration]) -> Calibrations:
        records = dict(self.records)
        for key in dict.fromkeys(((ALL, told.placed), (told.queue, told.placed))):
            records[key] = change(records.pop(key, Calibration()))
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
    """Returns the ratio that about this part of the next ones exceeds, between two ratios in proportion."""
    ordered = sorted(ratios)
    rank = min(float(len(ordered)), max(1.0, (1 - misses) * (len(ordered) + 1)))
    below, beyond = ordered[floor(rank) - 1], ordered[min(floor(rank), len(ordered) - 1)]
    return below + (rank - floor(rank)) * (beyond - below)


def _last(before: tuple[T, ...], more: T) -> tuple[T, ...]:
    return (*before[1 - WINDOW :], more)
