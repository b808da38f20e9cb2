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
    """The results of a group.

    `data` holds the keys of WRITTEN that have a value; `labels`, the values of LABELS by pod name; `again_in`, the seconds
    after which results may change without an event.
    """

    data: Mapping[str, str]
    record: ResultRecord
    labels: Mapping[str, Mapping[str, str]]
    again_in: float | None = None


def result(given: ResultInput) -> GroupResult:
    """Returns the results for the present state."""
    record = given.record.attempt(given.workload, placed=PLACEMENT in given.data)
    status, message = status_of(given)
    holds = given.placed or (record.over and status in (GroupStatus.BOUND, GroupStatus.FAILED))
    data = {STATUS: status, **({MESSAGE: message} if message else {})}
    assignments: tuple[RankAssignment, ...] = ()
    if holds:
        assignments, placement = _places(given, record)
        data |= {PLACEMENT: placement} if placement is not None else {}
        data |= {RANK: rank_text(assignments)} if assignments else {}
    record = replace(
        record, taken={assignment.rank: assignment.taken for assignment in assignments if assignment.taken}
    )
    data |= _times(given, record, holds=holds, bound=status == GroupStatus.BOUND)
    if not given.placed:
        return GroupResult(data, record, {})
    if not assignments:
        return GroupResult(data, record, {}, LOOK_AGAIN if any(pod.node for pod in given.living) else None)
    return _labelled(GroupResult(data, record, {}), given, assignments)


# ---- placement


def _places(given: ResultInput, record: ResultRecord) -> tuple[tuple[RankAssignment, ...], str | None]:
    """Returns the rank assignments, and the placement as text."""
    ours = given.record.goes_on(record) or not given.record.workload
    old = _old_assignments(given, record) if ours else ()
    if given.workload is None or not given.living:
        # While no pod lives, the last placement stays, so that the next attempt counts this one.
        return old, given.data.get(PLACEMENT) if ours else None
    pods = [PlacedPod(pod.name, given.path_of(pod)) for pod in given.living]
    assignments = rank_assignments(old, pods, given.size)
    paths: dict[str, Path] = {pod.pod: pod.path for pod in pods if pod.path}
    paths |= {assignment.pod: assignment.path for assignment in assignments if assignment.path}
    return assignments, placement_text(paths) if paths else None


def _old_assignments(given: ResultInput, record: ResultRecord) -> tuple[RankAssignment, ...]:
    """Reads the rank assignments from the ConfigMap, or from the pods' labels if the ConfigMap lost them."""
    assignments = read_assignments(given.data.get(RANK), given.data.get(PLACEMENT), record.taken)
    if assignments:
        return assignments
    ranks: dict[int, RankAssignment] = {}
    for pod in given.living:
        rank = _number(pod.given.get(names.SAKKARA_RANK))
        if rank is not None:
            taken = (_number(pod.given.get(names.SAKKARA_RETRIES)) or 0) - record.retries
            ranks.setdefault(rank, RankAssignment(rank, pod.name, given.path_of(pod), max(0, taken)))
    return tuple(ranks[rank] for rank in sorted(ranks))


# ---- times


def _times(given: ResultInput, record: ResultRecord, *, holds: bool, bound: bool) -> dict[str, str]:
    """Returns the times from the first wait to the last bound pod; a group that returns after its end starts from zero."""
    data: Mapping[str, str] = {} if given.record.over and not record.over else given.data
    times: dict[str, str] = {}
    begin = _moment(data.get(BEGIN))
    if begin is None and given.workload is not None:
        begin = _refined_time(parse_time(given.workload.metadata.creation_timestamp), given.seen)
    if begin is not None:
        times[BEGIN] = _format_time(begin)
    if SOLVER in data or given.solver is not None:
        times[SOLVER] = str(round((_number(data.get(SOLVER)) or 0) + (given.solver or 0.0)))
    end = _moment(data.get(END)) if holds and given.record.goes_on(record) else None
    if end is None and bound and begin is not None and given.living:
        end = max(begin, _last_bound(given))
    if begin is not None and end is not None:
        times |= {END: _format_time(end), TOTAL: str(_milli(end) - _milli(begin))}
    return times


def _last_bound(given: ResultInput) -> float:
    last = max((pod.scheduled for pod in given.living if pod.scheduled is not None), default=None)
    return _refined_time(last, given.bound) or given.now


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


def _labelled(group_result: GroupResult, given: ResultInput, assignments: Sequence[RankAssignment]) -> GroupResult:
    """Adds the labels of pods that have a rank and are not being deleted.

    A pod that is about to be bound is labelled later, unless its gate waits for the rank.
    """
    by_pod, left = {assignment.pod: assignment for assignment in assignments}, _patience_left(given)
    wanted: dict[str, dict[str, str]] = {}
    again: float | None = None
    for pod in given.pods:
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


def _patience_left(given: ResultInput) -> float:
    admitted = find_condition(given.conditions, names.ADMITTED)
    since = parse_time(admitted.last_transition_time) if admitted is not None else None
    return max(0.0, (since if since is not None else given.now) + PATIENCE - given.now)
