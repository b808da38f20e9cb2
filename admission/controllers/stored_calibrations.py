"""How well forecasts held, as JSON that can be stored, and back. What somebody made of it is bounded as what is measured is.

Called by run_time_keeper.py.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from admission.engine.forecast.calibration import WIDEST, WINDOW, Calibration, Calibrations

_Early = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Late = Annotated[float, msgspec.Meta(ge=1, le=WIDEST)]
_Bounded = msgspec.Meta(max_length=WINDOW)


class StoredCalibration(msgspec.Struct):
    """A Calibration."""

    early: Annotated[list[_Early], _Bounded] = []
    late: Annotated[list[_Late], _Bounded] = []
    held: Annotated[list[bool], _Bounded] = []

    @classmethod
    def of(cls, one: Calibration) -> StoredCalibration:
        """Returns what is stored of it: four digits of a ratio."""
        return cls([round(each, 4) for each in one.early], [round(each, 4) for each in one.late], list(one.held))

    def read(self) -> Calibration:
        """Returns the record."""
        return Calibration(tuple(self.early), tuple(self.late), tuple(self.held))


class StoredCalibrations(msgspec.Struct):
    """Calibrations."""

    quota: StoredCalibration = msgspec.field(default_factory=StoredCalibration)
    placed: StoredCalibration = msgspec.field(default_factory=StoredCalibration)


def stored_calibrations(known: Calibrations) -> str:
    """Returns the records as JSON."""
    both = StoredCalibrations(StoredCalibration.of(known.quota), StoredCalibration.of(known.placed))
    return msgspec.json.encode(both).decode()


def calibrations_in(text: msgspec.Raw) -> Calibrations:
    """Returns the records. Raises one of api.kube.decode.DECODE_ERRORS."""
    both = msgspec.json.decode(text, type=StoredCalibrations)
    return Calibrations(both.quota.read(), both.placed.read())
