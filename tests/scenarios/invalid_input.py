"""Steps and expected answers, from which the tables of invalid objects are written.

A row creates its objects one after the other; only the last step is invalid. The row says where that is detected and which
message the user gets. The rows are in the other modules `invalid_*.py`; test_invalid_input.py runs them. `<id>` in any text
stands for the row's own name, so rows share no object.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from api.kube.resources import (
    CLUSTER_QUEUES,
    JOBS,
    JOBSETS,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    WORKLOADS,
    Resource,
)
from api.names import HOSTNAME_LABEL, QUEUE_NAME_LABEL
from tests.scenarios.site import BLOCK, GPU, GROUP, RACK

SITE = "bad"
"""Namespace, flavor, Topology and ClusterQueue of the good site that all rows share; its LocalQueue is `lq`."""

Obj = dict[str, Any]


class Where(StrEnum):
    """Who finds it out: the API server by itself, by the CRD's schema, by the CRD's CEL rules (the real one only), our
    webhook, or our controller, which says so in a condition or an event."""

    SERVER = "server"
    SCHEMA = "schema"
    CEL = "cel"
    WEBHOOK = "webhook"
    CONDITION = "condition"


# ---- what is done


@dataclass(frozen=True)
class Make:
    """Creates an object; without a name it is called as the row."""

    resource: Resource
    body: Mapping[str, Any]


@dataclass(frozen=True)
class ChangeStep:
    """A merge patch of an object (of its status), `times` times; without a name of the row's own."""

    resource: Resource
    body: Mapping[str, Any]
    name: str = "<id>"
    status: bool = False
    times: int = 1


# ---- what comes of it


@dataclass(frozen=True)
class Refused:
    """The last step is answered with this status and reason, a webhook's always 403 Forbidden. A webhook's
    message is exactly `message`; the API server's own contains it."""

    status: int
    reason: str
    message: str


@dataclass(frozen=True)
class Says:
    """A condition of an object, in full."""

    resource: Resource
    type: str
    status: str
    reason: str
    message: str
    name: str = "<id>"


@dataclass(frozen=True)
class Waits:
    """The job's Workload says why it waits, in full (`<workload>` is its name); the job is suspended and has no pods."""

    reason: str
    message: str
    job: str = "<id>"
    resource: Resource = JOBS


@dataclass(frozen=True)
class Warns:
    """An event about the job, in full; the job is suspended and has no pods."""

    reason: str
    message: str
    resource: Resource = JOBS


@dataclass(frozen=True)
class RunsStep:
    """The job runs so many pods all the same."""

    pods: int


@dataclass(frozen=True)
class Holds:
    """The object was taken, and this is what is at a path of it (None: nothing)."""

    resource: Resource
    path: str
    value: Any
    name: str = "<id>"


@dataclass(frozen=True)
class GoneStep:
    """The object is removed, with its pods."""

    resource: Resource


Step = Make | ChangeStep
Answer = Refused | Says | Waits | Warns | RunsStep | Holds | GoneStep


@dataclass(frozen=True)
class InvalidRow:
    """One bad object. `embedded`: what the embedded server, which evaluates no CEL and knows less of the native kinds,
    answers instead; a string there is why the row is left out on it."""

    id: str
    where: Where
    steps: tuple[Step, ...]
    answers: tuple[Answer, ...]
    embedded: tuple[Answer, ...] | str | None = field(default=None)


def row(name: str, where: Where, *parts: Step | Answer, embedded: Answer | str | None = None) -> InvalidRow:
    """A row of its steps and answers, in order."""
    steps = tuple(part for part in parts if isinstance(part, Make | ChangeStep))
    answers = tuple(part for part in parts if not isinstance(part, Make | ChangeStep))
    other = embedded if embedded is None or isinstance(embedded, str) else (embedded,)
    return InvalidRow(name, where, steps, answers, other)


# ---- objects of common shape


def refused(message: str) -> Refused:
    """As invalid: by the schema, its CEL rules or our webhook."""
    return Refused(422, "Invalid", message)


def template(requests: Mapping[str, Any] | None = None, annotations: Mapping[str, str] | None = None) -> Obj:
    """A pod template; a GPU a pod unless told otherwise."""
    wanted = {"cpu": "1", GPU: "1"} if requests is None else dict(requests)
    limits = {GPU: wanted[GPU]} if GPU in wanted else {}
    container = {"name": "main", "image": "pause", "resources": {"requests": wanted, "limits": limits}}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"metadata": {"annotations": dict(annotations or {})}, "spec": spec}


def job(
    annotations: Mapping[str, str] | None = None,
    *,
    labels: Mapping[str, str] | None = None,
    queue: str = "lq",
    pods: int = 2,
    on_template: Mapping[str, str] | None = None,
    requests: Mapping[str, Any] | None = None,
    pod: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Make:
    """An Indexed Job; `on_template` are the annotations of its pod template, `pod` fields of the template's spec."""
    body = template(requests, on_template)
    body["spec"].update(pod or {})
    counts = {"parallelism": pods, "completions": pods, "completionMode": "Indexed", "backoffLimit": 0}
    metadata = {"labels": {QUEUE_NAME_LABEL: queue, **(labels or {})}, "annotations": dict(annotations or {})}
    return Make(JOBS, {"metadata": metadata, "spec": {**counts, "template": body, **spec}})


def jobset(annotations: Mapping[str, str] | None, *jobs: tuple[str, int, Mapping[str, str]]) -> Make:
    """A JobSet of (name, pods, annotations of the template) each."""
    replicated = [
        {"name": name, "replicas": 1, "template": {"spec": {
            "parallelism": pods, "completions": pods, "backoffLimit": 0, "template": template(None, said)}}}
        for name, pods, said in jobs
    ]  # fmt: skip
    metadata = {"labels": {QUEUE_NAME_LABEL: "lq"}, "annotations": dict(annotations or {})}
    return Make(JOBSETS, {"metadata": metadata, "spec": {"replicatedJobs": replicated}})


def topology(*levels: str) -> Make:
    """A Topology."""
    return Make(TOPOLOGIES, {"spec": {"levels": [{"nodeLabel": level} for level in levels]}})


def flavor(**spec: Any) -> Make:
    """A ResourceFlavor of nodes of its own group."""
    return Make(RESOURCE_FLAVORS, {"spec": {"nodeLabels": {GROUP: "<id>"}, **spec}})


def quota(name: str = "cpu", nominal: Any = 10, **limits: Any) -> Obj:
    """One resource of a flavor in a queue."""
    return {"name": name, "nominalQuota": nominal, **limits}


def group(*flavors: str, covered: tuple[str, ...] = ("cpu",), **limits: Any) -> Obj:
    """A resource group in which each flavor has the same quota."""
    resources = [quota(name, **limits) for name in covered]
    return {"coveredResources": list(covered), "flavors": [{"name": name, "resources": resources} for name in flavors]}


def cluster_queue(*groups: Mapping[str, Any], **spec: Any) -> Make:
    """A ClusterQueue for all namespaces."""
    return Make(CLUSTER_QUEUES, {"spec": {"namespaceSelector": {}, "resourceGroups": list(groups), **spec}})


def local_queue(target: str = "<id>") -> Make:
    """A LocalQueue of the row's own name."""
    return Make(LOCAL_QUEUES, {"spec": {"clusterQueue": target}})


def pod_set(name: str = "main", count: Any = 1, body: Mapping[str, Any] | None = None, **more: Any) -> Obj:
    """A pod set of a Workload."""
    return {"name": name, "count": count, "template": template() if body is None else body, **more}


def workload(*pod_sets: Mapping[str, Any], **spec: Any) -> Make:
    """A Workload that somebody writes by hand."""
    return Make(WORKLOADS, {"spec": {"queueName": "lq", "podSets": list(pod_sets or (pod_set(),)), **spec}})


def condition(kind: str, status: str = "True", reason: str = "Made", message: str = "by hand") -> Obj:
    """A condition as a stranger writes it."""
    moment = "2026-01-01T00:00:00Z"
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": moment}


def shortened(text: str) -> str:
    """As a webhook's message shows a value as long as a book."""
    return f'"{text[:1023]}... ({len(text) + 2} characters)'


LEVELS = (BLOCK, RACK, HOSTNAME_LABEL)
NOT_EVALUATED = "the embedded server evaluates no CEL rules"
