"""How often past intervals held, and how much wider the next ones must be.

A forecast does not know which workloads arrive later, which nodes fail, and which placements a topology allows. So each
workload that starts is compared with its first interval, and each end of later intervals moves: outwards by a large step after
a start beyond it, inwards by a small step otherwise. The steps are such that neither end moves any more when the wanted part
of the starts is inside (adaptive conformal inference, Gibbs and Candes 2021), whatever the reason of the misses was.

Workloads that are placed on a topology have a record of their own: other things delay them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp
from typing import Final

CONFIDENCE: Final = 0.9
"""The part of the starts that is to be inside of the interval."""
_MISSES: Final = (1 - CONFIDENCE) / 2 * 0.5
"""The part that may be beyond each end: half of what is left, since an end reacts only when late workloads have started."""
_STEP: Final = 0.25
_WIDEST: Final = 5.0
_FEW: Final = 10
"""Starts from which a record speaks against a forecast."""
_UNRELIABLE: Final = 0.75
_COUNTS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Calibration:
    """`early` and `late` are logarithms of the factors of the ends; `held` of `seen` starts were in their interval."""

    early: float = 0.0
    late: float = 0.0
    held: int = 0
    seen: int = 0

    def after(self, start: float, earliest: float, latest: float) -> Calibration:
        """Returns the calibration after one more start. Times are in the same unit, of one clock."""
        before, after = start < earliest, start > latest
        seen, held = self.seen + 1, self.held + (not before and not after)
        if seen > _COUNTS:
            seen, held = seen // 2, held // 2
        return replace(self, early=_moved(self.early, before), late=_moved(self.late, after), held=held, seen=seen)

    @property
    def reliable(self) -> bool:
        """Reports whether past intervals held often enough; also while too few are known."""
        return self.seen < _FEW or self.held >= _UNRELIABLE * self.seen

    def widened(self, earliest: float, latest: float) -> tuple[float, float]:
        """Returns an interval (seconds from now) with its ends moved."""
        return earliest * exp(-self.early), latest * exp(self.late)


@dataclass(frozen=True, slots=True)
class Calibrations:
    """The records of workloads that quota alone holds up (`quota`), and of those that need a place on a topology."""

    quota: Calibration = Calibration()
    placed: Calibration = Calibration()

    def of(self, *, placed: bool) -> Calibration:
        """Returns the record of such workloads."""
        return self.placed if placed else self.quota

    def after(self, start: float, earliest: float, latest: float, *, placed: bool) -> Calibrations:
        """Returns the records after one more start of such a workload."""
        record = self.of(placed=placed).after(start, earliest, latest)
        return replace(self, placed=record) if placed else replace(self, quota=record)

    @property
    def held(self) -> float | None:
        """The part of all starts that were in their interval; None if none is known."""
        seen = self.quota.seen + self.placed.seen
        return (self.quota.held + self.placed.held) / seen if seen else None


def _moved(factor: float, missed: bool) -> float:
    return min(_WIDEST, max(0.0, factor + _STEP * (missed - _MISSES)))
