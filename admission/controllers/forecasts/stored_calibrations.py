"""How well forecasts held, as JSON that can be stored, and back. What somebody made of it is bounded as what is measured is.

Called by run_time_keeper.py.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from admission.engine.features.forecast.calibration import QUEUES, WIDEST, WINDOW, Calibration, Calibrations

_Early = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Late = Annotated[float, msgspec.Meta(ge=1, le=WIDEST)]
_Ratios = msgspec.Meta(max_length=WINDOW)
_Held = Annotated[str, msgspec.Meta(max_length=WINDOW, pattern="^[01]*$")]
_Name = Annotated[str, msgspec.Meta(max_length=253)]


class StoredCalibration(msgspec.Struct):
    """A Calibration. Ratios have three digits; `held` is a text with 1 for each start that was in its interval, else 0."""

    queue: _Name = ""
    placed: bool = False
    early: Annotated[list[_Early], _Ratios] = []
    late: Annotated[list[_Late], _Ratios] = []
    held: _Held = ""


_Stored = Annotated[list[StoredCalibration], msgspec.Meta(max_length=QUEUES + 2)]


def stored_calibrations(calibrations: Calibrations) -> str:
    """Returns the records as JSON, the one that was used last at the end."""
    records = [
        StoredCalibration(
            queue,
            placed,
            [round(each, 3) for each in record.early],
            [round(each, 3) for each in record.late],
            "".join("01"[held] for held in record.held),
        )
        for (queue, placed), record in calibrations.records.items()
    ]
    text = ",\n".join(msgspec.json.encode(one).decode() for one in records)  # one a line, so that people can read it
    return f"[{text}]"


def calibrations_in(text: msgspec.Raw) -> Calibrations:
    """Returns the records. Raises one of api.kube.decode.DECODE_ERRORS."""
    return Calibrations(
        {
            (one.queue, one.placed): Calibration(
                tuple(one.early), tuple(one.late), tuple(each == "1" for each in one.held)
            )
            for one in msgspec.json.decode(text, type=_Stored)
        }
    )
