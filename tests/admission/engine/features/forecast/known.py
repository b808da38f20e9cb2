"""Calibrations for tests of the replays alone."""

from __future__ import annotations

from admission.engine.features.forecast.calibration import ALL, WINDOW, Calibration, Calibrations

_SURE = Calibration((1.0,) * WINDOW, (1.0,) * WINDOW, (True,) * WINDOW)
CERTAIN = Calibrations({(ALL, placed): _SURE for placed in (False, True)})
"""Everything has always started as in the replays, so that no interval is wider than they say."""
