"""Finds the exclusive placement that JobSet and LeaderWorkerSet offer by annotations. Pure.

With these annotations the kinds' own webhooks choose a domain for each child when its first pod is bound, and pin the other
pods there. Where a topology assigns the pods, that contradicts the assignment: children share a domain, or one child has
several, and its pods stay pending. The webhook rejects such a job; a job that is older than the topology of its queue waits
(contradictions.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from admission.integrations.declared.referenced import REFERENCED
from admission.integrations.paths import Location, value_at
from api import names
from api.kube.resources import Resource

EXCLUSIVE: Final = (
    names.JOBSET_EXCLUSIVE_TOPOLOGY,
    names.JOBSET_NODE_SELECTOR,
    names.LWS_EXCLUSIVE_TOPOLOGY,
    names.LWS_SUBGROUP_EXCLUSIVE_TOPOLOGY,
)
INSTEAD: Final = (
    "its pods run where they were assigned. For one domain for each group of pods set "
    f"{names.SLICE_REQUIRED_TOPOLOGY} and {names.SLICE_SIZE} on the pod template"
)
_MOST_PARTS: Final = 64


def annotated(job: Any, at: Location = ()) -> Iterator[tuple[Location, Mapping[str, Any]]]:
    """Yields the annotations that reach the pods beside those of the pod templates, each with its path: those of the job, of
    a JobSet's child Jobs, and of the objects that an AppWrapper contains.
    """
    for place in (("metadata", "annotations"), ("spec", "annotations")):
        if isinstance(metadata := value_at(job, place), Mapping):
            yield (*at, *place), metadata
    for number, child in enumerate(_items(job, ("spec", "replicatedJobs"))):
        place = ("metadata", "annotations")
        if isinstance(metadata := value_at(value_at(child, ("template",)), place), Mapping):
            yield (*at, "spec", "replicatedJobs", number, "template", *place), metadata
    if not at:
        for number, component in enumerate(_items(job, ("spec", "components"))):
            yield from annotated(value_at(component, ("template",)), ("spec", "components", number, "template"))


def _items(job: Any, place: Location) -> list[Any]:
    items = value_at(job, place)
    return items[:_MOST_PARTS] if isinstance(items, list) else []


def exclusive_annotations(job: Mapping[str, Any], reference: tuple[Resource, str] | None = None) -> dict[str, str]:
    """Returns the annotations of exclusive placement that reach the job's pods beside those of the pod templates.

    `reference` names the object that defines the job's pods, such as the runtime of a TrainJob.
    """
    runtime = REFERENCED.get(*reference) if reference is not None else None
    sources = [annotations for _, annotations in annotated(job)]
    sources += [annotations for _, annotations in annotated(value_at(runtime, ("spec", "template")))]
    return {
        key: annotations[key]
        for annotations in reversed(sources)
        for key in EXCLUSIVE
        if isinstance(annotations.get(key), str)
    }
