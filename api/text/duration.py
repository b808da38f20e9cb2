"""Parses Go durations in annotations and settings: `90s`, `10m`, `1h30m`, `200ms`. Pure."""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
# Ten digits are more than three hundred years in seconds; longer numbers are mistakes.
_PART: Final = re.compile(r"(\d{1,10}(?:\.\d{0,10})?|\.\d{1,10})(ns|us|µs|ms|s|m|h)", re.ASCII)
_LONGEST: Final = 64
"""Characters: a longer text is a mistake, and one of a megabyte would take a second to read."""
FORM: Final = "must be a duration such as 90s, 10m or 1h30m"


def seconds(text: str) -> float:
    """Returns the duration in seconds, never negative. Raises ValueError for text that is not a duration."""
    if len(text) > _LONGEST:
        raise ValueError(f"{text[:_LONGEST]!r}...: {FORM}")
    parts = _PART.findall(text)
    if text != "0" and (not parts or "".join(map("".join, parts)) != text):
        raise ValueError(f"{text!r}: {FORM}")
    return sum((float(number) * _UNITS[unit] for number, unit in parts), 0.0)
