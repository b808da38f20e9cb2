"""Learned run times and the calibration as text, for a ConfigMap that anybody with rights to it may have changed.

The text is bounded before it is parsed, and nothing in it is believed: an entry that is not what `encoded` writes is skipped
and counted. Counts above the limit are cut. What does not fit the size is left out, the oldest first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final

import msgspec

from admission.engine.forecast.calibration import Calibration
from admission.engine.forecast.run_times import (
    KINDS,
    LARGEST_COUNT,
    LONGEST,
    RunCounts,
    RunKind,
    RunTimes,
    is_bucket,
)

LARGEST_TEXT: Final = 512 * 1024
"""Bytes of the text; a ConfigMap holds 1 MiB."""
_TEXT: Final = 126


@dataclass(frozen=True, slots=True)
class Learned:
    """What was learned. `skipped` counts entries that could not be read; `fault` says why nothing could be."""

    times: RunTimes = field(default_factory=RunTimes)
    calibration: Calibration = field(default_factory=Calibration)
    skipped: int = 0
    fault: str = ""


def encoded(times: RunTimes, calibration: Calibration) -> str:
    """Returns the text, of at most `LARGEST_TEXT` bytes. Equal values give equal text."""
    learned = calibration
    head = {"calibration": [learned.early, learned.late, learned.held, learned.seen]}
    rows, size = [], len(msgspec.json.encode(head)) + len('{,"kinds":[]}')
    for kind, runs in reversed(list(times.items())):
        counts = [[bucket, runs.counts[bucket]] for bucket in sorted(runs.counts)]
        row = [*kind, runs.least, runs.most, counts]
        size += len(msgspec.json.encode(row)) + 1
        if size > LARGEST_TEXT:
            break
        rows.append(row)
    return msgspec.json.encode({**head, "kinds": rows[::-1]}).decode()


def decoded(text: object, limit: int = KINDS) -> Learned:
    """Returns what the text holds; never raises."""
    if not isinstance(text, str) or len(text) > LARGEST_TEXT:
        return Learned(RunTimes(limit), fault=f"is no text of at most {LARGEST_TEXT} characters")
    try:
        document = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError) as bad:
        return Learned(RunTimes(limit), fault=f"cannot be read: {bad}"[:200])
    if not isinstance(document, dict) or not isinstance(document.get("kinds"), list):
        return Learned(RunTimes(limit), fault="has no list `kinds`")
    times, skipped = RunTimes(limit), 0
    rows = document["kinds"]
    for row in rows[-limit:]:
        found = _row(row)
        if found is None:
            skipped += 1
        else:
            times.put(*found)
    skipped += max(0, len(rows) - limit)
    values = document.get("calibration")
    calibration = Calibration.read(*values) if isinstance(values, list) and len(values) == 4 else None
    return Learned(times, calibration or Calibration(), skipped + (calibration is None))


def _row(row: Any) -> tuple[RunKind, RunCounts] | None:
    if not isinstance(row, list) or len(row) != 6:
        return None
    *texts, least, most, counts = row
    if not all(isinstance(text, str) and len(text) <= _TEXT for text in texts):
        return None
    if not (_seconds(least) and _seconds(most) and least <= most and isinstance(counts, list) and counts):
        return None
    read: dict[int, int] = {}
    for pair in counts[:LARGEST_COUNT]:
        if not isinstance(pair, list) or len(pair) != 2 or not is_bucket(pair[0]):
            return None
        if type(pair[1]) is not int or pair[1] < 1:
            return None
        read[pair[0]] = min(pair[1], LARGEST_COUNT)
    return RunKind(*texts), RunCounts(read, float(least), float(most))


def _seconds(value: object) -> bool:
    return type(value) in (int, float) and isfinite(value) and 0 <= value <= LONGEST  # type: ignore[arg-type, operator]
