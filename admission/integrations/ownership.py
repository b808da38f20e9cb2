"""Checks whether the controller that an object names really created the object. Pure.

The creator of an object writes its owner references, so they prove nothing: a pod may name any Job and its UID. A pod counts
as a Job's pod only if the Job controller counts it too (the selector matches, so surplus pods are deleted), the Job is not
suspended, and the pod requests no more than the Job's template. A Job counts as a JobSet's only under a name that the JobSet
gives to one of its Jobs. Each function returns the fault, or an empty string.

A pod may request more cpu, memory and ephemeral storage than a template that sets none, since LimitRanges have defaults.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any, Final

import msgspec

from admission.integrations.job import pods_of
from api.errors import InvalidObject
from api.names import JOBSET_NAME_LABEL
from api.pod.pod_requests import effective_requests
from api.pod.pods import pod_spec
from api.text.quantity import to_text

Obj = Mapping[str, Any]

DEFAULTED: Final = frozenset(("cpu", "memory", "ephemeral-storage"))
NOTHING_ADDED: Final[Mapping[str, int]] = {}


def pod_fault(pod: Obj, job: Obj) -> str:
    """Returns why the pod does not belong to the Job, or an empty string."""
    spec = _spec(job)
    if spec.get("suspend"):
        return "is suspended and has no pods"
    wanted = ((spec.get("selector") or {}).get("matchLabels") or {}).items()
    if not wanted or not wanted <= _labels(pod).items():
        return f"has only pods with the labels {dict(wanted)}"
    return excess(pod, spec.get("template") or {}, DEFAULTED)


def job_fault(job: Obj, jobset: Obj) -> str:
    """Returns why the Job does not belong to the JobSet, or an empty string."""
    name, whole, spec = _name(job), _name(jobset), _spec(job)
    if _labels(job).get(JOBSET_NAME_LABEL) != whole:
        return f"has only Jobs with the label {JOBSET_NAME_LABEL}: {whole}"
    for each in _spec(jobset).get("replicatedJobs") or ():
        of_each, inner = f"{whole}-{each.get('name')}-", (each.get("template") or {}).get("spec") or {}
        number, replicas = name.removeprefix(of_each), each.get("replicas", 1)
        if name.startswith(of_each) and number in {str(index) for index in range(replicas)}:
            if pods_of(spec) > pods_of(inner):
                return f"has {pods_of(inner)} pods in its Job {name}, not {pods_of(spec)}"
            return excess(spec.get("template") or {}, inner.get("template") or {})
    return f"has no Job of the name {name}"


def excess(pod: Obj, template: Obj, defaulted: Set[str] = frozenset(), added: Mapping[str, int] = NOTHING_ADDED) -> str:
    """Returns how the pod's requests exceed the template's, or an empty string.

    Resources in `defaulted` may exceed a template that does not set them. `added` is what the job's controller may add in an
    init container (cpu in milli-units, other resources in their base unit).
    """
    try:
        requested, given = (effective_requests(pod_spec(each)) for each in (pod, template))
    except (msgspec.ValidationError, InvalidObject) as error:
        return f"has pods that can be read: {error}"
    for resource, amount in sorted(requested.items()):
        most = max(given.get(resource, 0), added.get(resource, 0))
        if amount > most and (resource in given or resource not in defaulted):
            least = to_text(resource, given.get(resource, 0))
            return f"asks for {least} of {resource} in each of its pods, not {to_text(resource, amount)}"
    return ""


def _spec(obj: Obj) -> Mapping[str, Any]:
    return obj.get("spec") or {}


def _name(obj: Obj) -> str:
    return str((obj.get("metadata") or {}).get("name") or "")


def _labels(obj: Obj) -> Mapping[str, str]:
    return (obj.get("metadata") or {}).get("labels") or {}
