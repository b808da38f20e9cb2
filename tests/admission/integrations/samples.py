"""A suspended, never started job of each kind, as the API server would give it; and what RFC 7386 does to it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Container, Iterator, Mapping
from functools import partial
from typing import Any, Final

from admission.integrations.base import JobIntegration
from admission.integrations.declared.declared import DeclaredJob
from admission.integrations.declared.functions.trainjob import CLUSTER_RUNTIMES
from admission.integrations.declared.referenced import REFERENCED
from admission.integrations.paths import Location, fields, value_at, with_value
from api.job_kinds import JobKind, PodSetRule

Object = dict[str, Any]


def template(**meta: Any) -> Object:
    """A pod template with a selector, a toleration and somebody else's gate."""
    return {
        "metadata": {"labels": {"app": "train"}, "annotations": {"team": "a"}, **meta},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}],
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "schedulingGates": [{"name": "example.com/other"}],
        },
    }


def batch_job(**spec: Any) -> Object:
    """A Job of three pods."""
    managed = {"controller-uid": "u1", "batch.kubernetes.io/job-name": "j"}
    body = template()
    body["metadata"]["labels"] |= managed
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "j",
            "namespace": "ns",
            "uid": "u1",
            "resourceVersion": "7",
            "labels": {"kueue.x-k8s.io/queue-name": "q"},
        },
        "spec": {"parallelism": 3, "completions": 5, "suspend": True, "template": body, **spec},
        "status": {"conditions": [{"type": "Suspended", "status": "True"}]},
    }


def jobset(**spec: Any) -> Object:
    """A JobSet of one driver and two workers of three pods each."""

    def replicated(name: str, replicas: int, pods: int) -> Object:
        job = {"parallelism": pods, "completions": pods, "template": template()}
        return {"name": name, "replicas": replicas, "template": {"metadata": {"labels": {"l": "1"}}, "spec": job}}

    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {
            "name": "s",
            "namespace": "ns",
            "uid": "u2",
            "resourceVersion": "8",
            "labels": {"kueue.x-k8s.io/queue-name": "q"},
        },
        "spec": {
            "suspend": True,
            "network": {"enableDNSHostnames": True},
            "replicatedJobs": [replicated("driver", 1, 1), replicated("worker", 2, 3)],
            **spec,
        },
        "status": {"conditions": [{"type": "Suspended", "status": "True"}]},
    }


def ray(kind: str, *path: str) -> Object:
    """A Ray cluster of a head and two groups of workers, of which one runs on two hosts each, at the path."""
    groups = [
        {"groupName": "small", "template": template()},
        {"groupName": "large", "replicas": 3, "numOfHosts": 2, "template": template()},
    ]
    cluster = {"suspend": True, "headGroupSpec": {"template": template()}, "workerGroupSpecs": groups}
    meta = {"name": "r", "namespace": "ns", "uid": "u4", "resourceVersion": "9"}
    labels = {"kueue.x-k8s.io/queue-name": "q"}
    job = {"apiVersion": "ray.io/v1", "kind": kind, "metadata": {**meta, "labels": labels}, "status": {}}
    found: Object = with_value(job, path, cluster)
    return found


def ray_job() -> Object:
    """A RayJob with that cluster and a submitter of its own."""
    job = ray("RayJob", "spec", "rayClusterSpec")
    cluster = {key: value for key, value in job["spec"]["rayClusterSpec"].items() if key != "suspend"}
    job["spec"] = {
        "suspend": True,
        "shutdownAfterJobFinishes": True,
        "rayClusterSpec": cluster,
        "submitterPodTemplate": template(),
    }
    return job


def runtime() -> Object:
    """The runtime of the TrainJob: an initializer and nodes."""

    def replicated(name: str, step: str) -> Object:
        labels = {"trainer.kubeflow.org/trainjob-ancestor-step": step}
        return {"name": name, "template": {"metadata": {"labels": labels}, "spec": {"template": template()}}}

    jobs = [replicated("dataset-initializer", "dataset-initializer"), replicated("node", "trainer")]
    spec = {"mlPolicy": {"numNodes": 1, "torch": {}}, "template": {"spec": {"replicatedJobs": jobs}}}
    kind = {"apiVersion": CLUSTER_RUNTIMES.api_version, "kind": CLUSTER_RUNTIMES.kind}
    return {**kind, "metadata": {"name": "torch"}, "spec": spec}


def train_job() -> Object:
    """A TrainJob of four nodes and the runtime's initializer, whose runtime is there."""
    REFERENCED.keep(CLUSTER_RUNTIMES, {"torch": runtime()})
    jobs: list[Object] = [
        {"name": name, "template": {"spec": {"template": {}}}} for name in ("dataset-initializer", "node")
    ]
    patch = {"manager": "tests", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}
    trainer = {"numNodes": 4}
    spec = {"suspend": True, "runtimeRef": {"name": "torch"}, "trainer": trainer, "runtimePatches": [patch]}
    return _object("trainer.kubeflow.org/v1alpha1", "TrainJob", spec)


def app_wrapper() -> Object:
    """An AppWrapper of a Job whose pods are inferred, a Service, and an object of two pod sets that are declared."""
    spec = {"parallelism": 3, "completions": 5, "template": template()}
    inner = {"apiVersion": "batch/v1", "kind": "Job", "spec": spec}
    other = {"apiVersion": "example.com/v1", "kind": "Crane", "spec": {"pods": [template(), template()]}}
    declared = [{"path": "template.spec.pods[0]"}, {"replicas": 2, "path": "template.spec.pods[1]"}]
    service = {"apiVersion": "v1", "kind": "Service"}
    components = [{"template": inner}, {"template": service}, {"template": other, "podSets": declared}]
    return _object("workload.codeflare.dev/v1beta2", "AppWrapper", {"suspend": True, "components": components})


def spark_application() -> Object:
    """A SparkApplication of a driver and three executors."""
    body = template()
    role = {**body["metadata"], "cores": 1, "nodeSelector": {"disk": "ssd"}, "tolerations": body["spec"]["tolerations"]}
    role["template"] = {"spec": {"schedulingGates": body["spec"]["schedulingGates"]}}
    spec = {"suspend": True, "type": "Scala", "mode": "cluster", "driver": role, "executor": {**role, "instances": 3}}
    return _object("sparkoperator.k8s.io/v1beta2", "SparkApplication", spec)


def _object(api_version: str, kind: str, spec: Object) -> Object:
    meta = {"name": "d", "namespace": "ns", "uid": "u5", "resourceVersion": "9"}
    labels = {"kueue.x-k8s.io/queue-name": "q"}
    return {"apiVersion": api_version, "kind": kind, "metadata": {**meta, "labels": labels}, "spec": spec, "status": {}}


_CRANE: Object = {"group": "example.com", "version": "v1", "plural": "cranes", "kind": "Crane"}
CRANE_KIND: Object = {
    "apiVersion": "stowage.dev/v1alpha1",
    "kind": "JobKind",
    "metadata": {"name": "cranes.example.com"},
    "spec": {
        **_CRANE,
        "suspend": {"path": "spec.parked"},
        "podSets": [
            {
                "each": "spec.teams[].crews[]",
                "template": "pod",
                "count": [{"path": "size"}, {"path": "^.shifts"}],
                "subGroupLabel": "example.com/shift",
                "subGroups": {"path": "^.shifts"},
            }
        ],
        "status": {"active": {"expression": "object.?status.?running.orValue(0) > 0"}},
        "rankLabel": "example.com/seat",
    },
}
"""A made-up kind: crews in teams, each for some shifts. Its pods bear the shift, and their seat within the shift."""
CRANES: Final = DeclaredJob(JobKind.from_wire(CRANE_KIND).spec)


def crane() -> Object:
    """A Crane of two crews: one pod, and two shifts of three pods."""
    crews = [{"name": "lift", "pod": template(), "shifts": 1}, {"name": "load", "size": 3, "pod": template()}]
    teams = [{"name": "north", "shifts": 1, "crews": crews[:1]}, {"name": "south", "shifts": 2, "crews": crews[1:]}]
    return _object("example.com/v1", "Crane", {"parked": True, "teams": teams})


SAMPLES: dict[str, Callable[[], Object]] = {
    "batch/job": batch_job,
    "jobset.x-k8s.io/jobset": jobset,
    CRANES.framework: crane,
    "ray.io/raycluster": partial(ray, "RayCluster", "spec"),
    "ray.io/rayservice": partial(ray, "RayService", "spec", "rayClusterConfig"),
    "ray.io/rayjob": ray_job,
    "sparkoperator.k8s.io/sparkapplication": spark_application,
    "trainer.kubeflow.org/trainjob": train_job,
    "workload.codeflare.dev/appwrapper": app_wrapper,
}
_RAY = {"head": 1, "small": 1, "large": 6}
COUNTS = {
    "batch/job": {"main": 3},
    "jobset.x-k8s.io/jobset": {"driver": 1, "worker": 6},
    CRANES.framework: {"north-lift": 1, "south-load": 6},
    "ray.io/raycluster": _RAY,
    "ray.io/rayservice": _RAY,
    "ray.io/rayjob": {**_RAY, "submitter": 1},
    "sparkoperator.k8s.io/sparkapplication": {"driver": 1, "executor": 3},
    "trainer.kubeflow.org/trainjob": {"dataset-initializer": 1, "node": 4},
    "workload.codeflare.dev/appwrapper": {"d-0": 3, "d-1": 1, "d-2": 2},
}


def declared(kind: DeclaredJob) -> Object:
    """A job with all its pod sets, as `_placed` says; two entries in each list."""
    job: Object = {
        "apiVersion": kind.resource.api_version,
        "kind": kind.resource.kind,
        "metadata": {
            "name": "d",
            "namespace": "ns",
            "uid": "u3",
            "resourceVersion": "9",
            "labels": {"kueue.x-k8s.io/queue-name": "q"},
        },
        "status": {"conditions": [{"type": "Suspended", "status": "True"}]},
    }
    for at, _, pods, rule in _placed(kind):
        job = with_value(job, (*at, *fields(rule.template or "")), template())
        if pods > 1:
            job = with_value(job, (*at, *fields(rule.count[0].path)), pods)
    return suspended(kind, job)


def _placed(kind: DeclaredJob) -> Iterator[tuple[Location, str, int, PodSetRule]]:
    """(path, pod set, pods) of each entry: two pods in the first entry of a rule where they can be counted, else one."""
    for rule in kind.spec.pod_sets:
        path = rule.each or ""
        names = list(rule.order) if path.endswith("{}") else [rule.name or ""]
        for number, name in enumerate(names):
            at = (*fields(path.removesuffix("{}")), *((name,) if path.endswith("{}") else ()))
            assert "[" not in path, f"tests/admission/integrations/samples.py has no sample of {kind.framework}"
            yield at, name.lower(), 2 if rule.count and not number else 1, rule


def sample(kind: JobIntegration) -> Object:
    """The sample of a registered kind; a kind without one fails its contract here."""
    if isinstance(kind, DeclaredJob) and kind.framework not in SAMPLES:
        return declared(kind)
    assert kind.framework in SAMPLES, f"tests/admission/integrations/samples.py has no sample of {kind.framework}"
    return SAMPLES[kind.framework]()


def counts(kind: JobIntegration) -> dict[str, int]:
    """The pods of the sample by pod set."""
    if isinstance(kind, DeclaredJob) and kind.framework not in COUNTS:
        return {name: pods for _, name, pods, _ in _placed(kind)}
    return COUNTS[kind.framework]


LARGER: dict[str, tuple[Location, ...]] = {
    "batch/job": (("spec", "parallelism"),),
    "sparkoperator.k8s.io/sparkapplication": (("spec", "executor", "instances"),),
    "workload.codeflare.dev/appwrapper": (("spec", "components", 0, "template", "spec", "parallelism"),),
}


def larger(kind: JobIntegration, job: Object) -> Object:
    """The job with four pods in its largest pod set (or six, as the samples have), and one in the first of several."""
    for path in LARGER.get(kind.framework, ()):
        job = with_value(job, path, 4)
    for entry in (
        kind.entries(job) if kind.framework.startswith("kubeflow.org/") and isinstance(kind, DeclaredJob) else ()
    ):
        job = with_value(job, (*entry.at, *fields(entry.rule.count[0].path)), 4 if entry.name == "worker" else 1)
    return job


def annotated(
    kind: JobIntegration, job: Object, annotations: Mapping[str, str], pod_sets: Container[str] | None = None
) -> Object:
    """The job with these annotations on the templates of its pod sets, or of these."""
    for at, name in _annotations_of(kind, job):
        if pod_sets is None or name in pod_sets:
            job = with_value(job, at, {**(value_at(job, at) or {}), **annotations})
    return job


def _annotations_of(kind: JobIntegration, job: Object) -> Iterator[tuple[Location, str]]:
    """Where the annotations of each pod set's template stand, and its name; a TrainJob has a patch of the user's for them."""
    said: Location = ("metadata", "annotations")
    inner: Location = ("template", "spec", "template", *said)
    if kind.framework == "batch/job":
        yield ("spec", "template", *said), "main"
    elif kind.framework == "jobset.x-k8s.io/jobset":
        for number, one in enumerate(job["spec"]["replicatedJobs"]):
            yield ("spec", "replicatedJobs", number, *inner), one["name"]
    elif kind.framework == "trainer.kubeflow.org/trainjob":
        patch: Location = ("spec", "runtimePatches", 0, "trainingRuntimeSpec", "template", "spec", "replicatedJobs")
        for number, one in enumerate(value_at(job, patch) or ()):
            yield (*patch, number, *inner), one["name"]
    elif kind.framework == "sparkoperator.k8s.io/sparkapplication":
        for role in ("driver", "executor"):
            yield ("spec", role, "annotations"), role
    elif isinstance(kind, DeclaredJob):
        for entry in kind.entries(job):
            yield ((*entry.at, *said) if entry.template is not None else (*entry.template_at, *said)), entry.name


def suspended(kind: JobIntegration, job: Object, value: bool = True) -> Object:
    """The job with its suspension set, as somebody does by hand."""
    found: Object = with_value(job, kind.suspend if isinstance(kind, DeclaredJob) else ("spec", "suspend"), value)
    return found


def merged(target: Any, patch: Any) -> Any:
    """RFC 7386, the receiving side."""
    if not isinstance(patch, Mapping):
        return copy.deepcopy(patch)
    out = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merged(out.get(key), value)
    return out
