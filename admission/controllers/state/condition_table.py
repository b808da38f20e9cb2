"""The conditions of a Workload: who sets and clears each, how long it lasts, and which state may follow which. Pure.

docs/reference/conditions.md and its diagram are generated from this table. `write/status.py` compares each write with it, and
logs an error for a write that the table does not allow: a new writer or transition is a line here first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from api.meta import Condition
from api.names import (
    ADMITTED,
    BACKFILLED,
    BEYOND_ADMISSION,
    BLOCKED_ON_PREEMPTION_GATES,
    DEACTIVATION_TARGET,
    EVICTED,
    EXPECTED_START,
    EXPLANATION,
    FIELDS_HONOURED,
    FINISHED,
    GANG_BOUND,
    HOSTS_HELD,
    LEVELS_KEPT,
    MOVING,
    NOT_CREATED,
    PLACEMENT,
    PODS_HELD,
    PODS_READY,
    PREEMPTED,
    QUOTA_RESERVED,
    REQUEUED,
    UNSCHEDULABLE,
    WAITING_FOR_REPLACEMENT_PODS,
)

WAITING: Final = "Waiting"
"""The state of a Workload without quota; no condition has this name."""


class Writer(StrEnum):
    """Who writes the status of Workloads. Each names itself in each write."""

    SCHEDULER = "scheduler"
    """Admits workloads, gives them other places, and evicts them for others."""
    LIFECYCLE = "lifecycle"
    """Follows queues, admission checks, time limits and spec.active; stops Workloads whose owner no controller manages."""
    WAIT_REASONS = "wait reasons"
    """Says why the latest cycle lets a workload wait."""
    EXPLANATIONS = "explanations"
    """Says what would admit a waiting workload."""
    FORECASTS = "forecasts"
    """Says when a waiting workload is expected to start."""
    JOBS = "jobs"
    """Starts, stops and follows jobs that are suspended as a whole."""
    PODS = "pods"
    """Starts, stops and follows pods that are queued singly, in groups and in gangs."""
    SETS = "sets"
    """Starts, stops and follows sets of pods that no field suspends, such as StatefulSets."""
    GANG_GROUPS = "gang groups"
    """Answers the admission check of gangs that start together; changes no condition."""
    NODES = "nodes"
    """Lists failed nodes in the status, and evicts workloads that lose too many."""
    RELABELLED_NODES = "relabelled nodes"
    """Compares running workloads with changed node labels."""
    SPARE_HOSTS = "spare hosts"
    """Counts the spare hosts that are held."""
    UNBOUND_PODS = "unbound pods"
    """Watches ungated pods that no node accepts."""
    REFUSED_PODS = "refused pods"
    """Watches jobs whose pods the API server refuses."""
    SURPLUS_PODS = "surplus pods"
    """Ends pods beyond the admission."""


class Lasts(StrEnum):
    """How long a condition lasts, whatever its value."""

    ADMISSION = "one admission"
    """The begin and the end of an admission remove it."""
    WAIT = "one wait"
    """The begin of an admission removes it."""
    UNTIL_CLEARED = "until cleared"
    """It stays until one who clears it does so."""


@dataclass(frozen=True, slots=True)
class ConditionRow:
    """One condition of Workloads."""

    type: str
    set_by: tuple[Writer, ...]
    """Those who write True."""
    cleared_by: tuple[Writer, ...]
    """Those who write False, or remove the condition."""
    lasts: Lasts = Lasts.UNTIL_CLEARED
    """How long the condition lasts."""
    ended_by: tuple[str, ...] = ()
    """The conditions of which each turns it off when it becomes true; its message stays."""
    next: Mapping[str, tuple[Writer, ...]] = field(default_factory=dict)
    """Where the condition stands for a state of the Workload: the states that may follow, and who leads there."""


_SCHEDULER, _LIFECYCLE, _JOBS, _PODS, _SETS = (
    Writer.SCHEDULER,
    Writer.LIFECYCLE,
    Writer.JOBS,
    Writer.PODS,
    Writer.SETS,
)
_ENDING = (_LIFECYCLE, _JOBS, _PODS, _SETS)
"""Those who take the quota of a workload: all but the scheduler, which gives it."""
_AROUND = (_SCHEDULER, *_ENDING)
"""Those who begin or end an admission."""
_EVICTING = (_SCHEDULER, _LIFECYCLE, _PODS, Writer.NODES, Writer.UNBOUND_PODS, Writer.REFUSED_PODS)
_HOLDING = (_SCHEDULER, _JOBS, _SETS)
"""Those who end a wait: by quota, or since the job asks for no pods."""
_STOPPING = (_LIFECYCLE, _JOBS, _SETS)
"""Those who take the quota of a workload without an eviction: its queue is stopped, or its job asks for no pods."""
_FINISHING = (_JOBS, _PODS, _SETS)

CONDITIONS: Final = (
    ConditionRow(
        QUOTA_RESERVED,
        (_SCHEDULER,),
        (Writer.WAIT_REASONS, *_ENDING),
        next={ADMITTED: (_LIFECYCLE,), EVICTED: _EVICTING, WAITING: _STOPPING, FINISHED: _FINISHING},
    ),
    ConditionRow(
        ADMITTED,
        (_SCHEDULER, _LIFECYCLE),
        (Writer.WAIT_REASONS, *_AROUND),
        next={
            QUOTA_RESERVED: (_LIFECYCLE,),
            MOVING: (_SCHEDULER,),
            EVICTED: _EVICTING,
            WAITING: _STOPPING,
            FINISHED: _FINISHING,
        },
    ),
    ConditionRow(
        MOVING,
        (_SCHEDULER,),
        (_JOBS, *_EVICTING),
        ended_by=(QUOTA_RESERVED, EVICTED),
        next={ADMITTED: (_JOBS,), EVICTED: _EVICTING, WAITING: _STOPPING, FINISHED: _FINISHING},
    ),
    ConditionRow(
        EVICTED,
        _EVICTING,
        (_SCHEDULER,),
        ended_by=(QUOTA_RESERVED,),
        next={WAITING: _ENDING, FINISHED: _FINISHING},
    ),
    ConditionRow(FINISHED, _FINISHING, ()),
    ConditionRow(PREEMPTED, (_SCHEDULER,), (_SCHEDULER,), ended_by=(QUOTA_RESERVED,)),
    ConditionRow(REQUEUED, _ENDING, _ENDING),
    ConditionRow(PODS_READY, (_JOBS, _PODS), (_JOBS, _PODS)),
    ConditionRow(DEACTIVATION_TARGET, (_LIFECYCLE,), (_LIFECYCLE,)),
    ConditionRow(
        BLOCKED_ON_PREEMPTION_GATES,
        (Writer.WAIT_REASONS,),
        (Writer.WAIT_REASONS, _SCHEDULER, _LIFECYCLE),
        ended_by=(QUOTA_RESERVED, EVICTED),
    ),
    ConditionRow(WAITING_FOR_REPLACEMENT_PODS, (_PODS,), (_PODS, _JOBS, _SETS)),
    ConditionRow(EXPLANATION, (Writer.EXPLANATIONS, Writer.WAIT_REASONS), _HOLDING, Lasts.WAIT),
    ConditionRow(EXPECTED_START, (Writer.FORECASTS,), (Writer.FORECASTS, *_HOLDING), Lasts.WAIT),
    ConditionRow(PLACEMENT, (_SCHEDULER,), _AROUND, Lasts.ADMISSION),
    ConditionRow(GANG_BOUND, (_PODS,), _AROUND, Lasts.ADMISSION),
    ConditionRow(PODS_HELD, (_PODS,), (_PODS,)),
    ConditionRow(UNSCHEDULABLE, (Writer.UNBOUND_PODS,), (Writer.UNBOUND_PODS, *_AROUND), Lasts.ADMISSION),
    ConditionRow(NOT_CREATED, (Writer.REFUSED_PODS,), (Writer.REFUSED_PODS, *_AROUND), Lasts.ADMISSION),
    ConditionRow(BEYOND_ADMISSION, (Writer.SURPLUS_PODS,), (Writer.SURPLUS_PODS,)),
    ConditionRow(LEVELS_KEPT, (Writer.RELABELLED_NODES,), (Writer.RELABELLED_NODES, *_AROUND), Lasts.ADMISSION),
    ConditionRow(HOSTS_HELD, (Writer.SPARE_HOSTS,), (Writer.SPARE_HOSTS, *_AROUND), Lasts.ADMISSION),
    ConditionRow(BACKFILLED, (_SCHEDULER,), _AROUND, Lasts.ADMISSION),
    ConditionRow(FIELDS_HONOURED, (_LIFECYCLE,), (_LIFECYCLE,)),
)
ROWS: Final = {row.type: row for row in CONDITIONS}
OF_ONE_ADMISSION: Final = tuple(row.type for row in CONDITIONS if row.lasts is Lasts.ADMISSION)
OF_ONE_WAIT: Final = tuple(row.type for row in CONDITIONS if row.lasts is Lasts.WAIT)
ENDED_BY: Final = {
    kind: tuple(row.type for row in CONDITIONS if kind in row.ended_by) for kind in (QUOTA_RESERVED, EVICTED)
}
"""What each of these turns off."""
STATES: Final = {
    WAITING: {QUOTA_RESERVED: (_SCHEDULER,), ADMITTED: (_SCHEDULER,), FINISHED: _FINISHING},
    **{row.type: row.next for row in CONDITIONS if row.next},
}
"""The states of a Workload that do not end, with those that may follow and who leads there."""


def state_of(conditions: Iterable[Condition]) -> str:
    """Returns the state of a Workload with these conditions: the type of the one that matters most, or WAITING."""
    true = {each.type for each in conditions if each.status == "True"}
    if FINISHED in true:
        return FINISHED
    if QUOTA_RESERVED not in true:
        return WAITING
    return next(kind for kind in (EVICTED, MOVING, ADMITTED, QUOTA_RESERVED) if kind in true)


def strangers(before: tuple[Condition, ...], after: tuple[Condition, ...], by: Writer) -> list[str]:
    """Returns what the table does not allow of this change of a status by this writer, in words; empty if it allows all."""
    if before is after:
        return []
    old, new = ({each.type: each for each in conditions} for conditions in (before, after))
    faults = []
    for kind in old.keys() | new.keys():
        row, condition = ROWS.get(kind), new.get(kind)
        if row is None or condition == old.get(kind):
            continue
        is_set = condition is not None and condition.status == "True"
        if by not in (row.set_by if is_set else row.cleared_by):
            faults.append(f"{by} {'sets' if is_set else 'clears'} {kind}")
    was, becomes = state_of(before), state_of(after)
    if was != becomes and by not in STATES.get(was, {}).get(becomes, ()):
        faults.append(f"{by} leads from {was} to {becomes}")
    return faults
