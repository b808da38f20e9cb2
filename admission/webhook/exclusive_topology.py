"""Rejects the exclusive placement of JobSet and LeaderWorkerSet in queues with a topology. Pure; jobs.py calls it.

With these annotations the kinds' own webhooks choose a domain for each child when its first pod is bound, and pin the other
pods there. Where a topology assigns the pods, that contradicts the assignment: children share a domain, or one child has
several, and its pods stay pending. Slices of the topology request say the same to Stowage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from admission.integrations.paths import value_at
from admission.webhook.annotations import QueueLevels
from admission.webhook.fields import Errors, FieldPath, invalid
from admission.webhook.template import Template
from api import names
from api.requests import asks_for_topology

EXCLUSIVE: Final = (
    names.JOBSET_EXCLUSIVE_TOPOLOGY,
    names.JOBSET_NODE_SELECTOR,
    names.LWS_EXCLUSIVE_TOPOLOGY,
    names.LWS_SUBGROUP_EXCLUSIVE_TOPOLOGY,
)


def validate(job: Mapping[str, Any], templates: Sequence[Template], known: QueueLevels | None) -> Errors:
    """Returns an error for each such annotation, if the queue or a template has a topology."""
    given = value_at(job, ("metadata", "annotations")) or {}
    if not (known and known.levels) and not any(asks_for_topology(each.annotations, given) for each in templates):
        return []
    where = f"in ClusterQueue {known.cluster_queue}, whose flavors have a topology" if known and known.levels else ""
    rule = (
        f"is not supported {where or 'beside a topology request'}: its pods run where they were assigned. "
        f"For one domain for each group of pods set {names.SLICE_REQUIRED_TOPOLOGY} and {names.SLICE_SIZE} on the pod template"
    )
    return [
        invalid(at.key(key), annotations[key], rule)
        for at, annotations in _annotated(job, templates)
        for key in EXCLUSIVE
        if key in annotations
    ]


def _annotated(job: Mapping[str, Any], templates: Sequence[Template]) -> Iterator[tuple[FieldPath, Mapping[str, Any]]]:
    """Yields the annotations that reach the pods: those of the job, of a JobSet's child Jobs, and of the pod templates."""
    replicated = value_at(job, ("spec", "replicatedJobs"))
    children = range(len(replicated) if isinstance(replicated, list) else 0)
    places: list[tuple[str | int, ...]] = [
        ("metadata", "annotations"),
        ("spec", "annotations"),
        *(("spec", "replicatedJobs", number, "template", "metadata", "annotations") for number in children),
    ]
    for place in places:
        if isinstance(found := value_at(job, place), Mapping):
            yield _path(place), found
    for template in templates:
        yield template.metadata.child("annotations"), template.annotations


def _path(place: Sequence[str | int]) -> FieldPath:
    path = FieldPath(str(place[0]))
    for step in place[1:]:
        path = path.item(step) if isinstance(step, int) else path.child(step)
    return path
