"""Converts the annotations about moves to the engine's values; see convert.py.

A value that cannot be read makes nothing fail: the workload runs and is not moved, and its status names the value.
"""

from __future__ import annotations

from collections.abc import Mapping

from admission.engine import model
from api import moves


def terms_of_workload(annotations: Mapping[str, str]) -> model.MoveTerms:
    """Returns the terms of a Workload; not movable if one of its annotations cannot be read."""
    if not any(key in annotations for key in moves.KEYS_OF_JOBS):
        return model.NO_TERMS
    return _terms(moves.of_workload(annotations))


def terms_of_queue(annotations: Mapping[str, str]) -> tuple[model.MoveTerms, int | None]:
    """Returns the terms of a ClusterQueue's workloads, and how many may be moved a day; none if that cannot be read."""
    found = moves.of_queue(annotations)
    return _terms(found), 0 if found.faults else found.per_day


def _terms(found: moves.MoveAnnotations) -> model.MoveTerms:
    movable = False if found.faults else found.movable
    return model.MoveTerms(movable, found.cost, found.minimum_run, found.checkpoint)
