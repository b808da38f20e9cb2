"""Computes the pod sets of an AppWrapper: those that its components declare, else those that its library infers (v1.2.2).

A component's `podSets[].path` starts at `template`, the wrapped object. A component without pods has no pod set.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from admission.integrations.base import Job
from admission.integrations.declared.entries import MOST_PODS, DeclaredPodSet, name_of
from admission.integrations.paths import Location, value_at, written
from api import names
from api.annotations.requests import parse_int32
from api.errors import InvalidObject
from api.job_kinds import PodSetRule
from api.kube.resources import Resource

_LONGEST: Final = 256
_PATH: Final = re.compile(r"template((\.[A-Za-z_][A-Za-z0-9_-]*)|(\[[0-9]{1,4}\]))*")
_STEPS: Final = re.compile(r"\.([A-Za-z_][A-Za-z0-9_-]*)|\[([0-9]{1,4})\]")
_MOST_COMPONENTS: Final = 64
_ANNOTATION: Final = "workload.codeflare.dev.appwrapper"
POD_INDEX: Final = f"{_ANNOTATION}/tas-pod-index-label"
"""On components of AppWrappers: the pods' label that holds their rank."""
SUB_GROUP: Final = f"{_ANNOTATION}/tas-sub-group-index-label"
"""On components of AppWrappers: the pods' label that holds the number of their subgroup."""
SUB_GROUPS: Final = f"{_ANNOTATION}/tas-sub-group-count"
"""On components of AppWrappers: the number of subgroups."""

PodSetOfComponent = tuple[Location, Any, Mapping[str, Any]]
"""Path of the pod template in the wrapped object, number of pods, annotations about pod order."""


class WrappedObjects:
    """The PodSetFunction of AppWrapper."""

    reads: Final[tuple[Resource, ...]] = ()

    def reference(self, job: Job) -> tuple[Resource, str] | None:
        """Returns None: an AppWrapper contains its objects."""
        return None

    def pod_sets(self, job: Job, rule: PodSetRule) -> Sequence[DeclaredPodSet]:
        """See PodSetFunction."""
        components = value_at(job, ("spec", "components"))
        if not isinstance(components, list) or not 1 <= len(components) <= _MOST_COMPONENTS:
            allowed = f"must be a list of 1 to {_MOST_COMPONENTS} components"
            raise InvalidObject("spec.components", components, allowed, name_of(job))
        pod_sets: list[DeclaredPodSet] = []
        for number, component in enumerate(components):
            around: Location = ("spec", "components", number)
            for position, (path, count, metadata) in enumerate(_of_component(job, around, component)):
                at = (*around, "template", *path)
                template = value_at(job, at)
                if not isinstance(template, Mapping) or not isinstance(template.get("spec"), Mapping):
                    raise InvalidObject(written(at), template, "must be a pod template", name_of(job))
                if type(count) is not int or not 0 <= count <= MOST_PODS:
                    text = f"must be a whole number from 0 to {MOST_PODS}"
                    raise InvalidObject(written((*around, "podSets", position, "replicas")), count, text, name_of(job))
                name = f"{name_of(job)}-{len(pod_sets)}"[-63:].lstrip("-.")
                pod_sets.append(
                    DeclaredPodSet(
                        at,
                        name.replace(".", "-"),
                        {},
                        component,
                        rule,
                        around_at=around,
                        position=position,
                        template=template,
                        count=count,
                        topology=_order(metadata),
                    )
                )
        return pod_sets

    def written(self, job: Job, entry: DeclaredPodSet, template: Mapping[str, Any]) -> Job:
        """Returns the job unchanged: AppWrapper declares `writeBack`, so a start never edits the wrapped object."""
        return job


def _of_component(job: Job, at: Location, component: Any) -> Iterator[PodSetOfComponent]:
    wrapped, given = value_at(component, ("template",)), value_at(component, ("podSets",))
    if not isinstance(wrapped, Mapping):
        raise InvalidObject(written((*at, "template")), wrapped, "must be an object", name_of(job))
    if not given:
        yield from _inferred(wrapped)
        return
    for number, one in enumerate(given if isinstance(given, list) else [given]):
        path, replicas = value_at(one, ("path",)), value_at(one, ("replicas",))
        if not isinstance(path, str) or len(path) > _LONGEST or not _PATH.fullmatch(path):
            where = written((*at, "podSets", number, "path"))
            raise InvalidObject(where, path, "must be a path that begins with `template`", name_of(job))
        steps = tuple(field or int(index) for field, index in _STEPS.findall(path.removeprefix("template")))
        metadata = value_at(one, ("annotations",))
        yield steps, 1 if replicas is None else replicas, metadata if isinstance(metadata, Mapping) else {}


def _order(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """Reads the order of pods from a pod set's annotations; unreadable values are ignored."""
    groups = metadata.get(SUB_GROUPS)
    return {
        "pod_index_label": metadata.get(POD_INDEX),
        "sub_group_index_label": metadata.get(SUB_GROUP),
        "sub_group_count": parse_int32(groups) if isinstance(groups, str) else None,
    }


def _inferred(wrapped: Mapping[str, Any]) -> Iterator[PodSetOfComponent]:
    """Yields the pod sets of a kind that AppWrapper's library knows, in the library's order."""
    spec: Location = ("spec",)
    match f"{wrapped.get('apiVersion')} {wrapped.get('kind')}":
        case "v1 Pod":
            yield (), 1, {}
        case "apps/v1 Deployment" | "apps/v1 StatefulSet":
            yield ("spec", "template"), _number(wrapped, ("spec", "replicas")), {}
        case "batch/v1 Job":
            yield ("spec", "template"), _pods_of_job(wrapped, spec), {POD_INDEX: names.JOB_COMPLETION_INDEX}
        case "jobset.x-k8s.io/v1alpha2 JobSet":
            for number in range(_length(wrapped, ("spec", "replicatedJobs"))):
                at = ("spec", "replicatedJobs", number)
                jobs, pods = _number(wrapped, (*at, "replicas")), _pods_of_job(wrapped, (*at, "template", "spec"))
                count = jobs * pods if type(jobs) is int and type(pods) is int else None
                order = {
                    POD_INDEX: names.JOB_COMPLETION_INDEX,
                    SUB_GROUP: names.JOBSET_JOB_INDEX,
                    SUB_GROUPS: str(jobs),
                }
                yield (*at, "template", "spec", "template"), count, order
        case "kubeflow.org/v1 PyTorchJob":
            for role in ("Master", "Worker"):
                part = ("spec", "pytorchReplicaSpecs", role)
                if value_at(wrapped, (*part, "template")) is not None:
                    yield (
                        (*part, "template"),
                        _number(wrapped, (*part, "replicas")),
                        {POD_INDEX: names.TRAINING_REPLICA_INDEX},
                    )
        case "ray.io/v1 RayCluster":
            yield from _of_ray(wrapped, spec)
        case "ray.io/v1 RayJob":
            yield from _of_ray(wrapped, ("spec", "rayClusterSpec"))


def _of_ray(wrapped: Mapping[str, Any], at: Location) -> Iterator[PodSetOfComponent]:
    yield (*at, "headGroupSpec", "template"), 1, {}
    for number in range(_length(wrapped, (*at, "workerGroupSpecs"))):
        group = (*at, "workerGroupSpecs", number)
        yield (*group, "template"), _pods_of_group(wrapped, group), {}


def _pods_of_group(wrapped: Mapping[str, Any], at: Location) -> Any:
    """Returns the number of pods that KubeRay creates for a group of workers: none while the group is suspended."""
    if value_at(wrapped, (*at, "suspend")) is True:
        return 0
    replicas, hosts = _number(wrapped, (*at, "replicas")), _number(wrapped, (*at, "numOfHosts"))
    return replicas * max(hosts, 1) if type(replicas) is int and type(hosts) is int else None


def _pods_of_job(wrapped: Mapping[str, Any], at: Location) -> Any:
    pods, completions = _number(wrapped, (*at, "parallelism")), value_at(wrapped, (*at, "completions"))
    return min(pods, completions) if type(pods) is int and type(completions) is int else pods


def _number(wrapped: Mapping[str, Any], at: Location) -> Any:
    """Returns the value at the path, or 1 if absent; the caller rejects values that are not numbers."""
    number = value_at(wrapped, at)
    return 1 if number is None else number


def _length(wrapped: Mapping[str, Any], at: Location) -> int:
    listed = value_at(wrapped, at)
    return len(listed) if isinstance(listed, list) else 0
