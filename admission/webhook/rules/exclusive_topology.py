"""Rejects the exclusive placement of JobSet and LeaderWorkerSet in queues with a topology. Pure; jobs.py calls it.

Slices of the topology request say the same to Stowage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from admission.integrations.exclusive import EXCLUSIVE, INSTEAD, annotated
from admission.integrations.paths import value_at
from admission.webhook.rules.annotations import QueueLevels
from admission.webhook.rules.fields import Errors, FieldPath, invalid
from admission.webhook.rules.template import Template
from api.annotations.requests import asks_for_topology


def validate(job: Mapping[str, Any], templates: Sequence[Template], levels: QueueLevels | None) -> Errors:
    """Returns an error for each such annotation, if the queue or a template has a topology."""
    given = value_at(job, ("metadata", "annotations")) or {}
    if not (levels and levels.levels) and not any(asks_for_topology(each.annotations, given) for each in templates):
        return []
    where = f"in ClusterQueue {levels.cluster_queue}, whose flavors have a topology" if levels and levels.levels else ""
    rule = f"is not supported {where or 'beside a topology request'}: {INSTEAD}"
    return [
        invalid(at.key(key), annotations[key], rule)
        for at, annotations in _annotated(job, templates)
        for key in EXCLUSIVE
        if key in annotations
    ]


def _annotated(job: Mapping[str, Any], templates: Sequence[Template]) -> Iterator[tuple[FieldPath, Mapping[str, Any]]]:
    """Yields all annotations that reach the pods."""
    yield from ((_path(place), given) for place, given in annotated(job))
    for template in templates:
        yield template.metadata.child("annotations"), template.annotations


def _path(place: Sequence[str | int]) -> FieldPath:
    path = FieldPath(str(place[0]))
    for step in place[1:]:
        path = path.item(step) if isinstance(step, int) else path.child(step)
    return path
