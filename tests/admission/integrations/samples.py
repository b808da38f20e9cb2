"""A suspended, never started job of each kind, as the API server would give it; and what RFC 7386 does to it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from admission.integrations.base import JobKind
from admission.integrations.declared import DeclaredJob, with_value

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


SAMPLES = {"batch/job": batch_job, "jobset.x-k8s.io/jobset": jobset}
COUNTS = {"batch/job": {"main": 3}, "jobset.x-k8s.io/jobset": {"driver": 1, "worker": 6}}


def declared(kind: DeclaredJob) -> Object:
    """A job of two pods in its first role, and of one in each other."""
    roles: dict[str, Object] = {role: {"template": template()} for role in kind.declaration.roles}
    roles[kind.declaration.roles[0]]["replicas"] = 2
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
    return suspended(kind, with_value(job, kind.declaration.replicas, roles))


def sample(kind: JobKind) -> Object:
    """The sample of a registered kind; a kind without one fails its contract here."""
    if isinstance(kind, DeclaredJob):
        return declared(kind)
    assert kind.framework in SAMPLES, f"tests/admission/integrations/samples.py has no sample of {kind.framework}"
    return SAMPLES[kind.framework]()


def counts(kind: JobKind) -> dict[str, int]:
    """The pods of the sample by pod set."""
    if isinstance(kind, DeclaredJob):
        return {role.lower(): 1 if number else 2 for number, role in enumerate(kind.declaration.roles)}
    return COUNTS[kind.framework]


def suspended(kind: JobKind, job: Object, value: bool = True) -> Object:
    """The job with its suspension set, as somebody does by hand."""
    return with_value(job, kind.declaration.suspend if isinstance(kind, DeclaredJob) else ("spec", "suspend"), value)


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
