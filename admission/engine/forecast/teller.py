"""From the first and the last start of a workload in the replays to what it is told.

Called by starts.py.
"""

from __future__ import annotations

from math import inf

from admission.engine.forecast.calibration import Calibrations, RecordKey, StartForecast, widened
from admission.engine.forecast.inputs import Waiting


class Teller:
    """Makes the forecasts of one moment."""

    def __init__(self, learned: Calibrations, now: float) -> None:
        self._learned, self._now = learned, now
        self._by_record: dict[RecordKey, tuple[tuple[float, float], float, bool]] = {}

    def _of(self, one: Waiting) -> tuple[tuple[float, float], float, bool]:
        """Returns how the ends are widened, the confidence, and whether a latest start is told."""
        key = (one.queue, one.placed)
        if key not in self._by_record:
            record = self._learned.of(one.queue, placed=one.placed)
            self._by_record[key] = record.factors(), record.confidence, record.reliable
        return self._by_record[key]

    def told(self, one: Waiting, first: float, last: float) -> StartForecast:
        """Returns the forecast of a workload with this first and last start in the replays, in seconds from now."""
        now = self._now
        factors, confidence, reliable = self._of(one)
        early, late = widened(first, last, factors)
        if promised := one.reserved is not None and one.reserved > now:
            late = min(late, one.reserved - now)
        elif not one.known:
            last = late = inf
        latest = now + late if late < inf and (reliable or promised) else None
        return StartForecast(
            now + min(early, late),
            latest,
            confidence,
            one.placed,
            one.queue,
            now,
            now + first,
            now + last,
            now + late,
        )
