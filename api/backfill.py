"""The message of the condition stowage.dev/Backfilled, which says from when on the workload may be evicted, and its reading.

The controller writes it together with the admission, and reads it after a restart.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from math import ceil
from typing import Final

from api.meta import parse_time

_BEGIN: Final = "may be evicted from "
_MESSAGE: Final = re.compile(rf"{_BEGIN}([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}T[0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}Z) on ")


def message(head: str, guess: float, until: float, start: float) -> str:
    """Returns the message for a workload that overtook `head`, expected to run for `guess` seconds at most.

    From `until` (epoch seconds) on it may be evicted, so that the head starts at `start`.
    """
    at, then = _rfc3339(until), _rfc3339(start)
    return (
        f"{_BEGIN}{at} on if a workload with a reserved start needs its place: it overtook {head}, "
        f"which is to start {'then' if at == then else f'at {then}'}, because jobs like it run for {guess:.0f} s at most"
    )


def _rfc3339(time: float) -> str:
    return datetime.fromtimestamp(ceil(time), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_until(text: str) -> float | None:
    """Returns from when on the workload may be evicted, in epoch seconds; None if the text is no such message."""
    match = _MESSAGE.match(text)
    try:
        return parse_time(match[1]) if match else None
    except ValueError:
        return None
