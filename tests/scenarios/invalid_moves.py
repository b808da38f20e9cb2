"""Bad annotations about moves and backfill, and bad advance reservations.

The vocabulary is invalid_input.py's. Policies of Topologies, read only with controller.moves, are in test_moves_asked.py.
"""

from __future__ import annotations

from typing import Any, Final

from api.kube.resources import ADVANCE_RESERVATIONS, CLUSTER_QUEUES, JOBS, NODES
from api.names import (
    BACKFILL_LEARNED,
    LAST_CHECKPOINT,
    MINIMUM_RUN_TIME,
    MOVABLE,
    MOVE_COST,
    MOVES_PER_DAY,
)
from api.text.duration import FORM
from tests.scenarios.invalid_input import (
    NOT_EVALUATED,
    ChangeStep,
    Holds,
    InvalidRow,
    Make,
    Says,
    Where,
    job,
    refused,
    row,
)
from tests.scenarios.invalid_limits import annotated
from tests.scenarios.site import GROUP, RACK

WEBHOOK, CONDITION, CEL, SCHEMA = Where.WEBHOOK, Where.CONDITION, Where.CEL, Where.SCHEMA
_COST: Final = f"{FORM}, of whole seconds, at most 168h"
_RUN: Final = f"{FORM}, of whole seconds, at most 8784h"
_BUDGET: Final = "must be a whole number from 0 to 100000"
_TIME: Final = "must be a time by RFC 3339, such as 2026-11-26T10:00:00Z"


def _wrong(name: str, key: str, value: str, allowed: str) -> InvalidRow:
    """A job with that annotation."""
    text = f'metadata.annotations[{key}]: Invalid value: "{value}": {allowed}'
    return row(name, WEBHOOK, job({key: value}), refused(text))


def reservation(start: str, end: str, labels: dict[str, str] | None = None, **more: Any) -> Make:
    """An AdvanceReservation, of no node unless told otherwise."""
    spec = {"nodeLabels": labels or {RACK: "<id>"}, "start": start, "end": end, **more}
    return Make(ADVANCE_RESERVATIONS, {"spec": spec})


def _active(status: str, reason: str, message: str) -> Says:
    return Says(ADVANCE_RESERVATIONS, "Active", status, reason, message)


_LATER: Final = ("2099-01-01T00:00:00Z", "2099-01-02T00:00:00Z")

ROWS: tuple[InvalidRow, ...] = (
    _wrong("movable-yes", MOVABLE, "yes", "must be true or false"),
    _wrong("move-cost-negative", MOVE_COST, "-5m", _COST),
    _wrong("move-cost-of-half-a-second", MOVE_COST, "500ms", _COST),
    _wrong("move-cost-of-a-month", MOVE_COST, "720h", _COST),
    _wrong("minimum-run-time-of-two-years", MINIMUM_RUN_TIME, "17520h", _RUN),
    _wrong("minimum-run-time-empty", MINIMUM_RUN_TIME, "", _RUN),
    _wrong("checkpoint-yesterday", LAST_CHECKPOINT, "yesterday", _TIME),
    _wrong("checkpoint-without-a-zone", LAST_CHECKPOINT, "2026-11-26T10:00:00", _TIME),
    row(
        "checkpoint-made-unreadable",  # as the job itself may do while it runs
        WEBHOOK,
        job({MOVABLE: "true"}),
        ChangeStep(JOBS, {"metadata": {"annotations": {LAST_CHECKPOINT: "9" * 30}}}),
        refused(f'metadata.annotations[{LAST_CHECKPOINT}]: Invalid value: "{"9" * 30}": {_TIME}'),
    ),
    row(
        "moves-per-day-negative",
        WEBHOOK,
        annotated(MOVES_PER_DAY, "-1"),
        refused(f'metadata.annotations[{MOVES_PER_DAY}]: Invalid value: "-1": {_BUDGET}'),
    ),
    row(
        "moves-per-day-without-end",
        WEBHOOK,
        annotated(MOVES_PER_DAY, "100001"),
        refused(f'metadata.annotations[{MOVES_PER_DAY}]: Invalid value: "100001": {_BUDGET}'),
    ),
    row(
        "moves-per-day-zero",  # none is a budget
        CONDITION,
        annotated(MOVES_PER_DAY, "0"),
        Holds(CLUSTER_QUEUES, "spec.queueingStrategy", "BestEffortFIFO"),
    ),
    row(
        "backfill-learned-sometimes",
        WEBHOOK,
        annotated(BACKFILL_LEARNED, "sometimes"),
        refused(
            f'metadata.annotations[{BACKFILL_LEARNED}]: Unsupported value: "sometimes": supported values: "false", "true"'
        ),
    ),
    row("reservation-of-everything", SCHEMA, reservation(*_LATER, nodeLabels={}), refused("spec.nodeLabels")),
    row(
        "reservation-from-soon",
        SCHEMA,
        reservation("soon", _LATER[1]),
        refused("spec.start"),
        embedded=_active("False", "Invalid", "spec.start: 'soon': allowed: a time in RFC 3339"),
    ),
    row(
        "reservation-for-no-namespace",
        SCHEMA,
        reservation(*_LATER, namespaces=["No Name"]),
        refused("spec.namespaces[0]"),
    ),
    row(
        "reservation-charged-to-no-name",
        SCHEMA,
        reservation(*_LATER, clusterQueue="No Name"),
        refused("spec.clusterQueue"),
    ),
    row(
        "reservation-that-ends-first",
        CEL,
        reservation(_LATER[1], _LATER[0]),
        refused("start must be before end"),
        embedded=NOT_EVALUATED,
    ),
    row(
        "reservation-in-the-past",
        CONDITION,
        reservation("2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z"),
        _active("False", "Over", "over since 2020-01-02T00:00:00Z"),
    ),
    row(
        "reservation-of-no-node",
        CONDITION,
        reservation(*_LATER),
        _active("True", "Held", f"no node has the label(s) {RACK}=<id>"),
    ),
    row(
        "reservation-beside-another",
        CONDITION,
        Make(
            ADVANCE_RESERVATIONS,
            {
                "metadata": {"name": "a-first-one"},
                "spec": {"nodeLabels": {GROUP: "<id>"}, "start": _LATER[0], "end": _LATER[1]},
            },
        ),
        Make(NODES, {"metadata": {"labels": {GROUP: "<id>", RACK: "r1"}}}),
        reservation(
            "2099-01-01T12:00:00Z", "2099-01-03T00:00:00Z", {GROUP: "<id>", RACK: "r1"}, clusterQueue="nobodys"
        ),
        _active(
            "True",
            "Held",
            "1 node(s) held for workloads that end before the start; 1 of them are held by a-first-one at the same time; "
            "no quota is charged: ClusterQueue nobodys not found",
        ),
    ),
)
