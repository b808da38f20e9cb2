"""The sentence that a waiting workload is told of its start, and what such a sentence says. Times are in RFC 3339."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from math import ceil, floor
from typing import Final, NamedTuple

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


class ToldStart(NamedTuple):
    """What a sentence says. Without one all is empty."""

    text: str = ""
    earliest: str | None = None
    latest: str | None = None


NOTHING_TOLD: Final = ToldStart()


def told_start(text: str) -> ToldStart:
    """Returns what the text says if it is such a sentence."""
    match = _SENTENCE.fullmatch(text)
    if match is None:
        return NOTHING_TOLD
    return ToldStart(text, match.group("earliest") or match.group("open"), match.group("latest"))
