"""Checks whether a pod or object that names a managed job as its controller was really created by that job's controller.

Pure. ownership.py explains why an owner reference alone proves nothing. `above` is the adapter of the owning job, `own` that
of the part. Every function returns a fault that completes a sentence about the job, or an empty string.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from admission.integrations.base import JobIntegration
from admission.integrations.declared.declared import DeclaredJob
from admission.integrations.jobset import JobSet
from admission.integrations.ownership import job_fault, pod_fault
from api.errors import InvalidObject

Obj = Mapping[str, Any]


def fault_of_pod(pod: Obj, job: Obj, above: JobIntegration | None) -> str:
    """Returns why the pod does not belong to the job, or an empty string."""
    return above.pod_fault(pod, job) if isinstance(above, DeclaredJob) else pod_fault(pod, job)


def fault_of_part(
    part: Obj, own: JobIntegration | None, job: Obj, above: JobIntegration | None, *, counted: bool = True
) -> str:
    """Returns why the part does not belong to the job, or an empty string. Without `counted` it may have any number of pods."""
    if isinstance(above, JobSet):
        return job_fault(part, job)
    if not isinstance(above, DeclaredJob) or own is None:
        return "has only pods"
    try:
        pod_sets = own.pod_sets(part, topology=False)
        if not counted:
            pod_sets = tuple(pod_set.model_copy(update={"count": 0}) for pod_set in pod_sets)
    except InvalidObject as error:
        return f"has parts that can be read: {error}"
    return above.child_fault(own.resource, pod_sets, job)


def fault_of_start(part: Obj, own: JobIntegration | None, job: Obj, above: JobIntegration | None) -> str:
    """Returns why the part may not run yet, or an empty string: a part stays suspended as long as its job is.

    A job that is being deleted may have a last part that cleans up: KubeRay's removes the cluster's state from Redis.
    """
    if (job.get("metadata") or {}).get("deletionTimestamp"):
        return ""
    runs = own is None or not own.is_suspended(part)
    return (
        f"is suspended, and its {own.resource.kind if own else 'Job'}s with it"
        if (above is not None and above.is_suspended(job) and runs)
        else ""
    )


def fault_of_descendant(pod: Obj, between: Sequence[Obj], job: Obj, above: JobIntegration | None) -> str:
    """Returns why a pod of a set inside the job exceeds what was admitted, or an empty string.

    `between` are the pod's controller, that one's controller, and so on, up to the job: the ReplicaSet and the Deployment of an
    AppWrapper. Sets can be scaled without a review of their spec. Pods without a set, such as executors of Spark, pass.
    """
    counts = [number for each in between if (number := _replicas(each)) is not None]
    if not counts or not isinstance(above, DeclaredJob):
        return ""
    if above.is_suspended(job) and not (job.get("metadata") or {}).get("deletionTimestamp"):
        return "is suspended and has no pods"
    return above.excess_of(counts, (pod,), job)


def _replicas(obj: Obj) -> int | None:
    """Returns the number of pods that a set asks for; None for an object without a pod template."""
    spec = obj.get("spec") or {}
    if not isinstance(spec.get("template"), Mapping):
        return None
    replicas = spec.get("replicas")
    return replicas if type(replicas) is int else 1
