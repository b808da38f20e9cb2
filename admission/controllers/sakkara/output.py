"""Computes the results of a Sakkara group: status, placement, ranks, times, and the labels of its pods. Pure.

It maps the group's ConfigMap, Workload and pods to the content of the ConfigMap and the labels of the pods. An attempt lasts
from one reservation to its end; the next attempt resets placement and ranks, while times continue. `output_record` defines the
input, `output_status` the status, `output_ranks` the ranks; `output_controller` writes the results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from admission.controllers.sakkara.output_ranks import (
    Path,
    PlacedPod,
    RankAssignment,
    placement_text,
    rank_assignments,
    rank_text,
    read_assignments,
)
from admission.controllers.sakkara.output_record import (
    BEGIN,
    END,
    MESSAGE,
    PLACEMENT,
    RANK,
    SOLVER,
    STATUS,
    TOTAL,
    GroupStatus,
    ResultInput,
    ResultRecord,
)
from admission.controllers.sakkara.output_status import status_of
from api import names
from api.meta import find_condition, parse_time

PATIENCE: Final = 10.0
"""Seconds after which an ungated pod is labelled although it is not bound, so that a pod bound soon is patched once."""
LOOK_AGAIN: Final = 5.0
"""Seconds until the next check when a pod is bound to an unknown node."""
_LONG: Final = 16


@dataclass(frozen=True, slots=True)
class GroupResult:
    """The results of a group."""

    data: Mapping[str, str]
    """The keys of WRITTEN that have a value."""
    record: ResultRecord
    labels: Mapping[str, Mapping[str, str]]
    """The values of LABELS by pod name."""
    again_in: float | None = None
    """The seconds after which results may change without an event."""


def result(inputs: ResultInput) -> GroupResult:
    """Returns the results for the present state."""
    record = inputs.record.attempt(inputs.workload, placed=PLACEMENT in inputs.data)
    status, message = status_of(inputs)
    holds = inputs.placed or (record.over and status in (GroupStatus.BOUND, GroupStatus.FAILED))
    data = {STATUS: status, **({MESSAGE: message} if message else {})}
    assignments: tuple[RankAssignment, ...] = ()
    if holds:
        assignments, placement = _places(inputs, record)
        data |= {PLACEMENT: placement} if placement is not None else {}
        data |= {RANK: rank_text(assignments)} if assignments else {}
    record = replace(
        record, taken={assignment.rank: assignment.taken for assignment in assignments if assignment.taken}
    )
    data |= _times(inputs, record, holds=holds, bound=status == GroupStatus.BOUND)
    if not inputs.placed:
        return GroupResult(data, record, {})
    if not assignments:
        return GroupResult(data, record, {}, LOOK_AGAIN if any(pod.node for pod in inputs.living) else None)
    return _labelled(GroupResult(data, record, {}), inputs, assignments)


# ---- placement


def _places(inputs: ResultInput, record: ResultRecord) -> tuple[tuple[RankAssignment, ...], str | None]:
    """Returns the rank assignments, and the placement as text."""
    ours = inputs.record.goes_on(record) or not inputs.record.workload
    old = _old_assignments(inputs, record) if ours else ()
    if inputs.workload is None or not inputs.living:
        # While no pod lives, the last placement stays, so that the next attempt counts this one.
        return old, inputs.data.get(PLACEMENT) if ours else None
    pods = [PlacedPod(pod.name, inputs.path_of(pod)) for pod in inputs.living]
    assignments = rank_assignments(old, pods, inputs.size)
    paths: dict[str, Path] = {pod.pod: pod.path for pod in pods if pod.path}
    paths |= {assignment.pod: assignment.path for assignment in assignments if assignment.path}
    return assignments, placement_text(paths) if paths else None


def _old_assignments(inputs: ResultInput, record: ResultRecord) -> tuple[RankAssignment, ...]:
    """Reads the rank assignments from the ConfigMap, or from the pods' labels if the ConfigMap lost them."""
    assignments = read_assignments(inputs.data.get(RANK), inputs.data.get(PLACEMENT), record.taken)
    if assignments:
        return assignments
    ranks: dict[int, RankAssignment] = {}
    for pod in inputs.living:
        rank = _number(pod.given.get(names.SAKKARA_RANK))
        if rank is not None:
            taken = (_number(pod.given.get(names.SAKKARA_RETRIES)) or 0) - record.retries
            ranks.setdefault(rank, RankAssignment(rank, pod.name, inputs.path_of(pod), max(0, taken)))
    return tuple(ranks[rank] for rank in sorted(ranks))


# ---- times


def _times(inputs: ResultInput, record: ResultRecord, *, holds: bool, bound: bool) -> dict[str, str]:
    """Returns the times from the first wait to the last bound pod; a group that returns after its end starts from zero."""
    data: Mapping[str, str] = {} if inputs.record.over and not record.over else inputs.data
    times: dict[str, str] = {}
    begin = _moment(data.get(BEGIN))
    if begin is None and inputs.workload is not None:
        begin = _refined_time(parse_time(inputs.workload.metadata.creation_timestamp), inputs.seen)
    if begin is not None:
        times[BEGIN] = _format_time(begin)
    if SOLVER in data or inputs.solver is not None:
        times[SOLVER] = str(round((_number(data.get(SOLVER)) or 0) + (inputs.solver or 0.0)))
    end = _moment(data.get(END)) if holds and inputs.record.goes_on(record) else None
    if end is None and bound and begin is not None and inputs.living:
        end = max(begin, _last_bound(inputs))
    if begin is not None and end is not None:
        times |= {END: _format_time(end), TOTAL: str(_milli(end) - _milli(begin))}
    return times


def _last_bound(inputs: ResultInput) -> float:
    last = max((pod.scheduled for pod in inputs.living if pod.scheduled is not None), default=None)
    return _refined_time(last, inputs.bound) or inputs.now


def _refined_time(second: float | None, seen: float | None) -> float | None:
    """Refines an API timestamp in whole seconds with the local observation, if that lies within two seconds after it."""
    if second is None or seen is None or not second <= seen < second + 2:
        return second
    return seen


def _format_time(moment: float) -> str:
    """Formats epoch seconds as RFC 3339 with milliseconds."""
    seconds, milli = divmod(_milli(moment), 1000)
    return datetime.fromtimestamp(seconds, UTC).strftime(f"%Y-%m-%dT%H:%M:%S.{milli:03d}Z")


def _milli(moment: float) -> int:
    return round(moment * 1000)


def _moment(text: str | None) -> float | None:
    try:
        return parse_time(text)
    except (ValueError, OverflowError):
        return None


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < _LONG else None


# ---- labels


def _labelled(group_result: GroupResult, inputs: ResultInput, assignments: Sequence[RankAssignment]) -> GroupResult:
    """Adds the labels of pods that have a rank and are not being deleted.

    A pod that is about to be bound is labelled later, unless its gate waits for the rank.
    """
    by_pod, left = {assignment.pod: assignment for assignment in assignments}, _patience_left(inputs)
    wanted: dict[str, dict[str, str]] = {}
    again: float | None = None
    for pod in inputs.pods:
        assignment = by_pod.get(pod.name)
        if assignment is None or pod.deleted:
            continue
        if left > 0 and not (pod.node or pod.over or pod.awaits_rank):
            again = left
            continue
        state = GroupStatus.FAILED if pod.failed else GroupStatus.BOUND if pod.node else GroupStatus.ASSIGNED
        wanted[pod.name] = {
            names.SAKKARA_RANK: str(assignment.rank),
            names.SAKKARA_RETRIES: str(group_result.record.retries + assignment.taken),
            names.SAKKARA_STATUS: state,
        }
    return replace(group_result, labels=wanted, again_in=again)


def _patience_left(inputs: ResultInput) -> float:
    admitted = find_condition(inputs.conditions, names.ADMITTED)
    since = parse_time(admitted.last_transition_time) if admitted is not None else None
    return max(0.0, (since if since is not None else inputs.now) + PATIENCE - inputs.now)
