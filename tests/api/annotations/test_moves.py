"""Annotations about moves: what is read, and what is refused."""

from __future__ import annotations

from time import process_time

import pytest

from api import names
from api.annotations import moves


@pytest.mark.parametrize(
    ("key", "text", "field", "value"),
    [
        pytest.param(names.MOVABLE, "true", "movable", True, id="movable"),
        pytest.param(names.MOVABLE, "false", "movable", False, id="not movable"),
        pytest.param(names.MOVE_COST, "1m30s", "cost", 90, id="cost"),
        pytest.param(names.MOVE_COST, "0s", "cost", 0, id="no cost"),
        pytest.param(names.MOVE_COST, "168h", "cost", moves.MAX_COST, id="the largest cost"),
        pytest.param(names.MINIMUM_RUN_TIME, "2h", "minimum_run", 7200, id="minimum run time"),
        pytest.param(names.LAST_CHECKPOINT, "1970-01-01T00:01:00Z", "checkpoint", 60.0, id="checkpoint"),
        pytest.param(names.LAST_CHECKPOINT, "1970-01-01T01:01:00.5+01:00", "checkpoint", 60.5, id="in another zone"),
    ],
)
def test_annotations_of_a_job(key: str, text: str, field: str, value: object) -> None:
    found = moves.of_workload({key: text})
    assert (getattr(found, field), found.faults) == (value, ())


@pytest.mark.parametrize(("text", "value"), [("0", 0), ("7", 7), ("100000", 100_000)])
def test_a_queue_has_a_budget(text: str, value: int) -> None:
    assert moves.of_queue({names.MOVES_PER_DAY: text}).per_day == value


PERIOD = "must be a duration such as 90s, 10m or 1h30m, of whole seconds, at most"
NUMBER = "must be a whole number from 0 to 100000"
MOMENT = "must be a time by RFC 3339"
HOSTILE = (
    "nan",
    "NaNs",
    "inf",
    "-0",
    "\u0661\u0662s",
    "\uff12\uff10\uff12\uff16-11-26T10:00:00Z",
    "1e9s",
    "5s\n",
    "0x10s",
    "1s" * 500_000,
)
"""Not a number, no end, digits of other scripts, and a megabyte."""


@pytest.mark.parametrize(
    ("key", "text", "allowed"),
    [
        *((names.MOVABLE, text, "must be true or false") for text in ("", "yes", "True", "1", "true ")),
        *(
            (names.MOVE_COST, text, PERIOD)
            for text in ("", "-5s", "5", "0.5s", "169h", "9" * 40 + "s", "soon", *HOSTILE)
        ),
        *((names.MINIMUM_RUN_TIME, text, PERIOD) for text in ("", "-1h", "10000h", "1d", *HOSTILE)),
        *(
            (names.MOVES_PER_DAY, text, NUMBER)
            for text in ("", "-1", "1.5", "100001", "9" * 5000, "\u0663", "01", "+1", *HOSTILE)
        ),
        *(
            (names.LAST_CHECKPOINT, text, MOMENT)
            for text in (
                "",
                "now",
                "2026-11-26",
                "2026-11-26T10:00:00",
                "2026-13-26T10:00:00Z",
                "1" * 100_000,
                *HOSTILE,
            )
        ),
    ],
    ids=lambda value: str(value).removeprefix("stowage.dev/")[:24] or "empty",
)
def test_other_values_are_faults_that_say_what_is_allowed(key: str, text: str, allowed: str) -> None:
    read = moves.of_queue if key == names.MOVES_PER_DAY else moves.of_workload
    (fault,) = read({key: text}).faults
    assert str(fault).startswith(f"metadata.annotations[{key}]: ")
    assert allowed in str(fault)
    assert len(str(fault)) < 700


def test_one_fault_hides_no_other() -> None:
    found = moves.of_workload({names.MOVABLE: "yes", names.MOVE_COST: "-1s", names.MINIMUM_RUN_TIME: "1h"})
    assert ([fault.given for fault in found.faults], found.minimum_run) == (["yes", "-1s"], 3600)


def test_a_megabyte_is_refused_at_once() -> None:
    """A text of many small parts took a second of the event loop, each time that an object with it was read."""
    began = process_time()
    for key in moves.KEYS_OF_JOBS:
        for text in ("1s" * 500_000, "1" * 1_000_000, "2026-11-26T10:00:00." + "0" * 1_000_000 + "Z"):
            assert moves.of_workload({key: text}).faults
    assert process_time() - began < 0.2
