"""A suspended, never started job of each kind, as the API server would give it; and what RFC 7386 does to it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from admission.integrations.base import JobIntegration
from admission.integrations.declared import DeclaredJob
from admission.integrations.paths import Location, fields, with_value
from api.job_kinds import PodSetRule

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


SAMPLES: dict[str, Callable[[], Object]] = {
    "batch/job": batch_job,
    "jobset.x-k8s.io/jobset": jobset,
    "ray.io/raycluster": partial(ray, "RayCluster", "spec"),
    "ray.io/rayservice": partial(ray, "RayService", "spec", "rayClusterConfig"),
}
_RAY = {"head": 1, "small": 1, "large": 6}
COUNTS = {
    "batch/job": {"main": 3},
    "jobset.x-k8s.io/jobset": {"driver": 1, "worker": 6},
    "ray.io/raycluster": _RAY,
    "ray.io/rayservice": _RAY,
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
        job = with_value(job, (*at, *fields(rule.template)), template())
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
