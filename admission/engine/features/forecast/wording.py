"""The sentence that a waiting workload is told of its start, and what such a sentence says. Times are in RFC 3339."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from math import ceil, floor
from typing import Final

from admission.engine.features.forecast.calibration import StartForecast

_TIME: Final = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
_SENTENCE: Final = re.compile(
    rf"expected to start (between (?P<earliest>{_TIME}) and (?P<latest>{_TIME}), with \d{{1,3}}% confidence"
    rf"|at (?P<open>{_TIME}) or later; no latest start is known)",
    re.ASCII,
)


def wording(forecast: StartForecast) -> str:
    """Returns the sentence; its times are rounded outwards to whole seconds."""
    earliest = _time(floor(forecast.earliest))
    if forecast.latest is None:
        return f"expected to start at {earliest} or later; no latest start is known"
    return f"expected to start between {earliest} and {_time(ceil(forecast.latest))}, with {forecast.confidence:.0%} confidence"


def _time(at: int) -> str:
    # A start after the year 9999 has no RFC 3339.
    return datetime.fromtimestamp(min(at, 253_402_300_799), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def is_forecast(text: str) -> bool:
    """Reports whether the text is such a sentence."""
    return _SENTENCE.fullmatch(text) is not None


def latest_start(forecast: str) -> str | None:
    """Returns the latest start of a forecast; None if it knows none."""
    match = _SENTENCE.fullmatch(forecast)
    return match.group("latest") if match else None


def earliest_start(forecast: str) -> str | None:
    """Returns the earliest start of a forecast; None if there is none."""
    match = _SENTENCE.fullmatch(forecast)
    return match.group("earliest") or match.group("open") if match else None
