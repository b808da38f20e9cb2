"""Reads the annotations by which jobs, queues and priority classes say which running workloads may be moved, at what cost.

A value that cannot be read is a fault, which names field, value and what is allowed. Workloads with a fault are not moved:
their job would lose more than it allowed. Pure; the webhook, the engine's conversion and the status of objects call it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from api import names
from api.errors import InvalidObject
from api.meta import parse_time
from api.text import duration

MAX_COST: Final = 7 * 86_400
"""The most seconds that a restart can cost each device."""
MAX_RUN: Final = 366 * 86_400
"""The longest minimum run time, in seconds."""
MAX_PER_DAY: Final = 100_000
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,5}", re.ASCII)
_TIME: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})", re.ASCII
)


class MoveAnnotations(NamedTuple):
    """What the annotations of one object say; None for what they do not say. `faults` has the values that cannot be read.

    `cost` and `minimum_run` are whole seconds, `checkpoint` is in epoch seconds.
    """

    movable: bool | None = None
    cost: int | None = None
    minimum_run: int | None = None
    checkpoint: float | None = None
    per_day: int | None = None
    faults: tuple[InvalidObject, ...] = ()


def of_workload(annotations: Mapping[str, str]) -> MoveAnnotations:
    """Returns what the annotations of a job or Workload say."""
    return _read(annotations, {**_BOTH, **_WORKLOAD})


def of_queue(annotations: Mapping[str, str]) -> MoveAnnotations:
    """Returns what the annotations of a ClusterQueue say."""
    return _read(annotations, {**_BOTH, **_QUEUE})


def of_class(annotations: Mapping[str, str]) -> MoveAnnotations:
    """Returns what the annotations of a LocalQueue or WorkloadPriorityClass say."""
    return _read(annotations, _BOTH)


_Parser = Callable[[str], bool | int | float]


def _read(annotations: Mapping[str, str], parsers: Mapping[str, tuple[str, _Parser]]) -> MoveAnnotations:
    fields: dict[str, bool | int | float] = {}
    faults = []
    for key, (field, parse) in parsers.items():
        text = annotations.get(key)
        if text is None:
            continue
        try:
            fields[field] = parse(text)
        except ValueError as bad:
            faults.append(InvalidObject(f"metadata.annotations[{key}]", text, str(bad)))
    return MoveAnnotations(**fields, faults=tuple(faults))  # type: ignore[arg-type]


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("must be true or false")
    return text == "true"


def _period(most: int) -> _Parser:
    """Returns a parser of durations of whole seconds from 0 to `most`."""
    allowed = f"{duration.FORM}, of whole seconds, at most {most // 3600}h"

    def parse(text: str) -> int:
        try:
            number = duration.seconds(text)
        except ValueError:
            raise ValueError(allowed) from None
        if not number.is_integer() or number > most:
            raise ValueError(allowed)
        return int(number)

    return parse


def _moment(text: str) -> float:
    allowed = "must be a time by RFC 3339, such as 2026-11-26T10:00:00Z"
    if _TIME.fullmatch(text) is None:
        raise ValueError(allowed)
    try:
        return parse_time(text.upper()) or 0.0
    except ValueError:
        raise ValueError(allowed) from None


def _per_day(text: str) -> int:
    if _NUMBER.fullmatch(text) is None or int(text) > MAX_PER_DAY:
        raise ValueError(f"must be a whole number from 0 to {MAX_PER_DAY}")
    return int(text)


_BOTH: Final[Mapping[str, tuple[str, _Parser]]] = {
    names.MOVABLE: ("movable", _boolean),
    names.MOVE_COST: ("cost", _period(MAX_COST)),
    names.MINIMUM_RUN_TIME: ("minimum_run", _period(MAX_RUN)),
}
_WORKLOAD: Final[Mapping[str, tuple[str, _Parser]]] = {names.LAST_CHECKPOINT: ("checkpoint", _moment)}
_QUEUE: Final[Mapping[str, tuple[str, _Parser]]] = {names.MOVES_PER_DAY: ("per_day", _per_day)}
KEYS_OF_CLASSES: Final = tuple(_BOTH)
"""The annotations that LocalQueues and WorkloadPriorityClasses may have."""
KEYS_OF_JOBS: Final = (*_BOTH, *_WORKLOAD)
"""The annotations that a Workload takes over from its job whenever they change."""
