"""Converts the annotations about moves to the engine's values; see convert_workloads.py.

A value that cannot be read makes nothing fail: the workload runs and is not moved, and its status names the value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from admission.engine import model
from api.annotations import moves
from api.meta import find_condition, parse_time
from api.names import MOVING, MovingReason
from api.workloads import Workload, WorkloadStatus


def terms_of_workload(w: Workload) -> model.RestartTerms:
    """Returns the terms of a Workload; not movable if one of its annotations cannot be read, or if it is of plain pods."""
    annotations = w.metadata.annotations
    if w.of_pod_group:
        terms = _OF_PODS
    elif any(key in annotations for key in moves.KEYS_OF_JOBS):
        terms = _terms(moves.of_workload(annotations))
    else:
        terms = model.NO_TERMS
    return _with_history(terms, w.status)


def completed(own: model.RestartTerms, others: Iterable[Mapping[str, str]]) -> model.RestartTerms:
    """Returns the terms, completed by the annotations of its LocalQueue and WorkloadPriorityClass, in this order.

    An object with a value that cannot be read moves nothing.
    """
    for given in others:
        if any(key in given for key in moves.KEYS_OF_CLASSES):
            own = own.completed_by(_terms(moves.of_class(given)))
    return own


def _with_history(terms: model.RestartTerms, status: WorkloadStatus) -> model.RestartTerms:
    """Adds when and how often the workload was moved, which its status says."""
    moving = find_condition(status.conditions, MOVING)
    if moving is None:
        return terms
    counts = status.scheduling_stats.evictions if status.scheduling_stats else ()
    times = sum(one.count for one in counts if one.reason == MovingReason.MOVED)
    moved = parse_time(moving.last_transition_time)
    return replace(terms, moved=moved, times=max(1, times), moving=moving.status == "True")


def terms_of_queue(annotations: Mapping[str, str]) -> tuple[model.RestartTerms, int | None]:
    """Returns the terms of a ClusterQueue's workloads, and how many may be moved a day; none if that cannot be read."""
    annotated = moves.of_queue(annotations)
    return _terms(annotated), 0 if annotated.faults else annotated.per_day


_OF_PODS: Final = model.RestartTerms(movable=False)
"""Nothing starts the plain pods of a group anew."""


def _terms(annotations: moves.MoveAnnotations) -> model.RestartTerms:
    movable = False if annotations.faults else annotations.movable
    return model.RestartTerms(movable, annotations.cost, annotations.minimum_run, annotations.checkpoint)
