"""Learned run times as records that can be stored, and back. A record that somebody edited is checked field by field.

A record is a dict: `queue`, `owner` and `name` of the kind, `least` and `most` in seconds, `counts` by bucket (`run_times.py`).
Nothing in a record can make a forecast take longer or a number overflow: each is bounded as what is learned is.

Called by the controller that stores them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from admission.engine.features.forecast.run_times import BUCKETS, LARGEST_COUNT, LONGEST, TEXT, RunCounts, RunKind

_TEXTS: Final = {"queue": 2 * TEXT, "owner": TEXT, "name": TEXT}


class UnreadableRecord(ValueError):
    """A record that cannot be used; the message names the field, what was given and what is allowed."""


def record_of(kind: RunKind, runs: RunCounts) -> dict[str, Any]:
    """Returns the record of a kind."""
    counts = {str(bucket): runs.counts[bucket] for bucket in sorted(runs.counts)}
    return {**kind._asdict(), "least": round(runs.least, 3), "most": round(runs.most, 3), "counts": counts}


def runs_of(record: object) -> tuple[RunKind, RunCounts]:
    """Returns the kind and its runs. Raises UnreadableRecord."""
    if not isinstance(record, Mapping):
        raise UnreadableRecord(_text("", record, "must be an object"))
    kind = RunKind(*(_read_text(record, field, longest) for field, longest in _TEXTS.items()))
    least, most = _seconds(record, "least"), _seconds(record, "most")
    if least > most:
        raise UnreadableRecord(_text("least", least, f"must be at most most, {most}"))
    return kind, RunCounts(_counts(record.get("counts")), least, most)


def _read_text(record: Mapping[str, Any], field: str, longest: int) -> str:
    given = record.get(field)
    if not isinstance(given, str) or len(given) > longest:
        raise UnreadableRecord(_text(field, given, f"must be a text of at most {longest} characters"))
    return given


def _seconds(record: Mapping[str, Any], field: str) -> float:
    given = record.get(field)
    number = -1.0 if isinstance(given, bool) or not isinstance(given, int | float) else given
    if not 0 <= number <= LONGEST:  # no NaN is in any range
        raise UnreadableRecord(_text(field, given, f"must be seconds from 0 to {LONGEST:.0f}"))
    return float(number)


def _counts(stored: object) -> dict[int, int]:
    if not isinstance(stored, Mapping) or not 1 <= len(stored) <= BUCKETS:
        raise UnreadableRecord(_text("counts", stored, f"must be an object of 1 to {BUCKETS} counts"))
    counts = {}
    for bucket, count in stored.items():
        place = f"counts[{_cut(bucket)}]"
        if not (bucket.isascii() and bucket.isdecimal() and len(bucket) <= 3 and int(bucket) < BUCKETS):
            raise UnreadableRecord(_text(place, bucket, f"must be a bucket from 0 to {BUCKETS - 1}"))
        if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= LARGEST_COUNT:
            raise UnreadableRecord(_text(place, count, f"must be a whole number from 1 to {LARGEST_COUNT}"))
        counts[int(bucket)] = count
    if sum(counts.values()) > LARGEST_COUNT:
        raise UnreadableRecord(_text("counts", sum(counts.values()), f"must be at most {LARGEST_COUNT} runs together"))
    return counts


def _text(field: str, value: object, allowed: str) -> str:
    return f"{field}: {_cut(value)}: {allowed}" if field else f"{_cut(value)}: {allowed}"


def _cut(value: object) -> str:
    """Returns the value as a text of bounded length: it may be as large as an object of the API server."""
    if isinstance(value, Mapping | list):
        return f"{'an object' if isinstance(value, Mapping) else 'a list'} of {len(value)}"
    text = repr(value)
    return text if len(text) <= TEXT else f"{text[:TEXT]}..."
