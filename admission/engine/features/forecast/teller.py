"""From the first and the last start of a workload in the replays to what it is told.

Called by starts.py.
"""

from __future__ import annotations

from math import inf

from admission.engine.features.forecast.calibration import Calibrations, RecordKey, StartForecast, widened
from admission.engine.features.forecast.inputs import Waiting


class Teller:
    """Makes the forecasts of one moment."""

    def __init__(self, learned: Calibrations, now: float) -> None:
        self._learned, self._now = learned, now
        self._by_record: dict[RecordKey, tuple[tuple[float, float], float, bool]] = {}

    def _of(self, workload: Waiting) -> tuple[tuple[float, float], float, bool]:
        """Returns how the ends are widened, the confidence, and whether a latest start is told."""
        key = (workload.queue, workload.placed)
        if key not in self._by_record:
            record = self._learned.of(workload.queue, placed=workload.placed)
            self._by_record[key] = record.factors(), record.confidence, record.reliable
        return self._by_record[key]

    def told(self, workload: Waiting, first: float, last: float) -> StartForecast:
        """Returns the forecast of a workload with this first and last start in the replays, in seconds from now."""
        now = self._now
        factors, confidence, reliable = self._of(workload)
        early, late = widened(first, last, factors)
        if promised := workload.reserved is not None and workload.reserved > now:
            late = min(late, workload.reserved - now)
        elif not workload.known:
            last = late = inf
        latest = now + late if late < inf and (reliable or promised) else None
        return StartForecast(
            now + min(early, late),
            latest,
            confidence,
            workload.placed,
            workload.queue,
            now,
            now + first,
            now + last,
            now + late,
        )
