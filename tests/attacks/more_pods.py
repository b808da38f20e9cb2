"""Every kind of owner times every way to run more pods than were admitted: what a tenant sends, and the rule that answers.

The kinds come from the registry, so a kind that is added is in the table at once. `table` yields the cells; test_more_pods.py
sends each to the webhook as a tenant's request. What the role `edit` cannot write at all has no cell: statuses, bindings,
resizes (test_admitted_pods.py asks a real server).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from admission.integrations.base import JobIntegration
from admission.integrations.declared.declared import DeclaredJob
from admission.integrations.declared.entries import DeclaredPodSet
from admission.integrations.paths import Location, fields, with_value
from admission.integrations.registry import ADAPTERS
from admission.integrations.sets.sets import SETS
from admission.webhook.endpoints import MUTATE_DECLARED, VALIDATE_DECLARED, VALIDATING
from admission.webhook.review_request import CREATE, UPDATE
from api import names
from api.kube.resources import DEPLOYMENTS, JOBS, PODS, Resource
from tests.admission.integrations.samples import sample, suspended

Obj = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Attempt:
    """A tenant's request, the object of that kind that it names as its owner, and what the refusal contains."""

    path: str
    operation: str
    old: Obj | None
    new: Obj
    refusal: str
    owner: Obj | None = None


@dataclass(frozen=True, slots=True)
class Way:
    """A way to run more pods. `rule` says which rule answers; `attempts` returns none where the kind has no such thing."""

    name: str
    rule: str
    attempts: Callable[[JobIntegration], list[Attempt]]


def path_of(resource: Resource, verb: str = "validate") -> str:
    for path, endpoint in VALIDATING.items():
        if endpoint.resource == resource:
            return path.replace("validate", verb)
    return VALIDATE_DECLARED if verb == "validate" else MUTATE_DECLARED


# ---- the owner


def running(kind: JobIntegration) -> Obj:
    return suspended(kind, sample(kind), False)


def raised(kind: JobIntegration, job: Obj) -> Obj:
    """The job with 40 in each field that counts its pods."""
    for at in _counts(kind, job):
        job = with_value(job, at, 40)
    return job


_COUNTS: Final[dict[str, Location]] = {
    "batch/job": ("spec", "parallelism"),
    "jobset.x-k8s.io/jobset": ("spec", "replicatedJobs", 1, "replicas"),
    "trainer.kubeflow.org/trainjob": ("spec", "trainer", "numNodes"),
    "sparkoperator.k8s.io/sparkapplication": ("spec", "executor", "instances"),
    "workload.codeflare.dev/appwrapper": ("spec", "components", 0, "template", "spec", "parallelism"),
}


def _counts(kind: JobIntegration, job: Obj) -> Iterator[Location]:
    if kind.framework in _COUNTS:
        yield _COUNTS[kind.framework]
    elif isinstance(kind, DeclaredJob):
        entries: list[DeclaredPodSet] = kind.entries(job)
        yield from ((*entry.at, *fields(entry.rule.count[0].path)) for entry in entries if entry.rule.count)


def _updated(kind: JobIntegration, old: Obj, new: Obj, refusal: str) -> list[Attempt]:
    return [Attempt(path_of(kind.resource), UPDATE, old, new, refusal)]


def owner_started(kind: JobIntegration) -> list[Attempt]:
    return _updated(kind, suspended(kind, sample(kind)), running(kind), "only Stowage starts it")


def owner_raised(kind: JobIntegration) -> list[Attempt]:
    old = running(kind)
    new = raised(kind, old)
    if kind.framework == "batch/job":
        new = with_value(new, ("spec", "completions"), 40)
    # The webhook does not read a TrainJob's runtime, which says how many pods a node has: the controller stops the job instead.
    by_controller = kind.framework == "trainer.kubeflow.org/trainjob"
    return [] if by_controller else _updated(kind, old, new, "more or other pods than were admitted")


def owner_leaves(kind: JobIntegration) -> list[Attempt]:
    found = []
    for old in (running(kind), suspended(kind, sample(kind))):
        new = copy.deepcopy(old)
        new["metadata"]["labels"] = {}
        found += _updated(kind, old, new, names.QUEUE_NAME_LABEL)
    return found


# ---- its pods


def reference(kind: JobIntegration) -> Obj:
    resource = kind.resource
    return {"apiVersion": resource.api_version, "kind": resource.kind, "name": "o", "uid": "u-o", "controller": True}


def pod_of(kind: JobIntegration) -> Obj:
    """A gated pod of an admitted job of the kind."""
    labels = {names.PODSET_LABEL: "main", f"{kind.resource.group}/job-name": "o"}
    annotations = {names.WORKLOAD_ANNOTATION: "w", names.TOPOLOGY_WORKLOAD: "w", names.TOPOLOGY_PODSET: "main"}
    meta = {"name": "p", "namespace": "ns", "labels": labels, "annotations": annotations}
    gates = [{"name": names.TOPOLOGY_GATE}, {"name": names.ELASTIC_GATE}]
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    spec = {"schedulingGates": gates, "containers": [container]}
    return {"metadata": {**meta, "ownerReferences": [reference(kind)]}, "spec": spec}


def _pod(edit: Callable[[Obj], object], refusal: str) -> Callable[[JobIntegration], list[Attempt]]:
    def attempts(kind: JobIntegration) -> list[Attempt]:
        old = pod_of(kind)
        new = copy.deepcopy(old)
        edit(new)
        return [Attempt(path_of(PODS), UPDATE, old, new, refusal)]

    return attempts


def _each_label_changed(pod: Obj) -> None:
    pod["metadata"]["labels"] = {key: f"{value}-2" for key, value in pod["metadata"]["labels"].items()}


def pod_by_hand(kind: JobIntegration) -> list[Attempt]:
    found = []
    for more in ({}, {"nodeName": "n1"}, {"schedulingGates": [{"name": names.TOPOLOGY_GATE}]}):
        pod = pod_of(kind)
        pod["metadata"].pop("ownerReferences")
        pod["spec"] = {"containers": pod["spec"]["containers"], **more}
        found.append(Attempt(path_of(PODS, "mutate"), CREATE, None, pod, names.WORKLOAD_ANNOTATION))
    return found


def pod_claims_owner(kind: JobIntegration) -> list[Attempt]:
    pod = pod_of(kind)
    owner = {**running(kind), "metadata": {"name": "o", "uid": "u-o", "labels": {names.QUEUE_NAME_LABEL: "q"}}}
    return [Attempt(path_of(PODS, "mutate"), CREATE, None, pod, f"the {kind.resource.kind} o ", owner)]


# ---- its parts


def part_of(kind: JobIntegration) -> Obj:
    meta = {"name": "o-part", "namespace": "ns", "ownerReferences": [reference(kind)]}
    template = {"metadata": {"annotations": {names.WORKLOAD_ANNOTATION: "w"}}, "spec": {**pod_of(kind)["spec"]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": meta,
        "spec": {"parallelism": 2, "suspend": False, "template": template},
    }


def _part(edit: Callable[[Obj], object], refusal: str) -> Callable[[JobIntegration], list[Attempt]]:
    def attempts(kind: JobIntegration) -> list[Attempt]:
        if kind.framework == "batch/job":
            return []  # a Job has no parts but pods
        old = part_of(kind)
        new = copy.deepcopy(old)
        edit(new)
        owner = {**running(kind), "metadata": {"name": "o", "uid": "u-o"}}
        return [Attempt(path_of(JOBS), UPDATE, old, new, refusal, owner)]

    return attempts


def _more_requests(job: Obj) -> None:
    job["spec"]["template"]["spec"]["containers"] = [
        {"name": "c", "image": "i", "resources": {"requests": {"cpu": "64", "nvidia.com/gpu": "8"}}}
    ]


WAYS: Final = (
    Way("the owner is started by hand", "starts.py, where all is queued; else the controller stops it", owner_started),
    Way(
        "the owner is raised while it runs",
        "starts.py, where all is queued; else the controller stops it",
        owner_raised,
    ),
    Way("the queue label is removed", "jobs.py while it runs, endpoints.py where all is queued", owner_leaves),
    Way(
        "a gate is patched away",
        "marked_pods.py",
        _pod(lambda pod: pod["spec"].pop("schedulingGates"), "only Stowage removes this gate"),
    ),
    Way(
        "a gate of two is patched away",
        "marked_pods.py",
        _pod(lambda p: p["spec"]["schedulingGates"].pop(), "only Stowage"),
    ),
    Way(
        "the identity is removed",
        "marked_pods.py",
        _pod(lambda pod: pod["metadata"]["annotations"].clear(), names.WORKLOAD_ANNOTATION),
    ),
    Way("the pod is relabelled", "marked_pods.py", _pod(_each_label_changed, "would replace this pod")),
    Way(
        "the pod is orphaned",
        "marked_pods.py",
        _pod(lambda pod: pod["metadata"].pop("ownerReferences"), "stays with its owner"),
    ),
    Way(
        "the pod is sent elsewhere",
        "marked_pods.py",
        _pod(lambda pod: pod["spec"].update(nodeSelector={names.HOSTNAME_LABEL: "n1"}), "nodeSelector"),
    ),
    Way("a pod is created with the identity", "marks.py", pod_by_hand),
    Way("a pod is created with the owner", "owners.py", pod_claims_owner),
    Way("a part is raised", "parts.py", _part(lambda job: job["spec"].update(parallelism=40), "spec: Forbidden: the ")),
    Way("a part asks for more", "parts.py", _part(_more_requests, "spec: Forbidden: the ")),
    Way(
        "a gate of a part's template is removed",
        "parts.py",
        _part(lambda job: job["spec"]["template"]["spec"].pop("schedulingGates"), "schedulingGates"),
    ),
    Way("a part is orphaned", "parts.py", _part(lambda job: job["metadata"].pop("ownerReferences"), "ownerReferences")),
)


def table() -> Iterator[tuple[JobIntegration, Way, list[Attempt]]]:
    """Every cell: kind, way and what a tenant sends; nothing where the kind has no such thing."""
    for kind in ADAPTERS:
        for way in WAYS:
            yield kind, way, way.attempts(kind)


SET_RESOURCES: Final = (DEPLOYMENTS, *(kind.resource for kind in SETS))
"""Kinds whose pods are admitted by themselves: however many there are, each waits at a gate of its own."""
