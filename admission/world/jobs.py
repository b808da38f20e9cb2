"""Completes manifests as the API server would store them, and composes the Workload of a job.

Uses the webhook's defaults and validation, the adapters' pod sets and the job controller's Workload; only the API server is
missing. Called by builder.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from admission.controllers.jobs.context import JobContext
from admission.controllers.jobs.plan.workload import composed, is_managed
from admission.controllers.watch.cluster_view import ClusterView
from admission.integrations.base import JobIntegration
from admission.integrations.pods.gang import names_gang
from admission.integrations.registry import KINDS
from admission.integrations.sets.sets import SCALED
from admission.webhook.endpoints import ENDPOINTS, declared_endpoint
from admission.webhook.guards import owners
from admission.webhook.review_request import CREATE, Request
from admission.webhook.rules.fields import aggregate
from admission.webhook.rules.gang_pods import GangPod
from admission.webhook.rules.jobs import is_part
from admission.webhook.rules.lookups import Lookups
from admission.webhook.rules.review_rules import ReviewRules
from api.errors import InvalidObject, StowageError
from api.kube.resources import PODS, Resource
from api.names import QUEUE_NAME_LABEL, SIMULATED_ARRIVAL, SIMULATED_CHECKPOINTS, SIMULATED_DURATION
from api.text.duration import seconds
from api.workloads import Workload

Object = dict[str, Any]
Decode = Callable[[Resource, bytes], object]

_ENDPOINTS: Final = {endpoint.resource: endpoint for endpoint in ENDPOINTS}


def job_kinds() -> dict[Resource, JobIntegration]:
    """Returns the adapters of all job kinds by resource."""
    return {adapter.resource: adapter for adapter in KINDS.adapters()}


class NotManaged(StowageError):
    """Stowage would not manage the object; the message says why."""


def lookups(view: ClusterView, gang_pods: Callable[[str], Iterable[GangPod]]) -> Lookups:
    """Returns the webhook's lookups from `view`; `gang_pods` returns the pods of a gang by its key."""

    def labels(namespace: str) -> Mapping[str, str] | None:
        namespace_object = view.namespaces.objects.get(namespace)
        return namespace_object.metadata.labels if namespace_object else None

    return Lookups(
        local_queues=view.local_queues.objects,
        cluster_queues=view.cluster_queues.objects,
        flavors=view.flavors.objects,
        topologies=view.topologies.objects,
        admission_checks=view.checks.objects,
        workload_priority_classes=view.workload_priorities.objects,
        namespace_labels=labels,
        gang_pods=gang_pods,
    )


def completed(resource: Resource, obj: Object, lookups: Lookups, rules: ReviewRules, decode: Decode) -> Object:
    """Sets the webhook's defaults in place, validates the object and returns it.

    Raises RejectedByWebhook with the validation errors, and InvalidObject for an unreadable object: validation assumes that
    the CRD's schema holds, which nothing checks here, so `decode` produces the error.
    """
    endpoint = _ENDPOINTS.get(resource) or declared_endpoint((resource.group, resource.kind))
    if endpoint is None:
        return obj
    meta = obj["metadata"]
    claimed = owners.claim(obj, rules, pod=True) if resource == PODS else None
    # Input files are trusted: they name a pod's owner, which may not be among them.
    owner = {"metadata": {"uid": claimed.uid}} if claimed is not None and SCALED.get(claimed.kind) is not None else None
    request = Request("", CREATE, meta.get("name", ""), meta.get("namespace", ""), obj, owner=owner)
    try:
        if endpoint.completes:
            endpoint.mutate(obj, request, lookups, rules)
        errors = endpoint.validate(request, lookups, rules)
    except (TypeError, AttributeError, ValueError) as bad:
        decode(resource, msgspec.json.encode(obj))
        raise InvalidObject("spec", meta.get("name", ""), f"cannot be read: {bad}") from None
    if errors:
        raise RejectedByWebhook(aggregate(errors))
    return obj


class RejectedByWebhook(StowageError):
    """The webhook would reject the object; the message has its errors."""


def workload_of(job: Object, kind: JobIntegration, context: JobContext, rules: ReviewRules) -> Workload | None:
    """Returns the Workload that the controller would create; None for a finished job, or for a part of another job.

    Raises NotOurs if the job is not managed, InvalidObject, or PriorityClassMissing.
    """
    if is_part(job, rules) or kind.finished(job) is not None:
        return None
    if not is_managed(job, context):
        namespace = job["metadata"].get("namespace") or ""
        if not context.options.namespace_managed(namespace):
            raise NotManaged(f"jobs of namespace {namespace} are not managed, so nothing holds it back")
        raise NotManaged(f"names no queue (label {QUEUE_NAME_LABEL}), so nothing holds it back")
    return composed(job, kind, context)


def left_to_gangs(job: Object, kind: JobIntegration, context: JobContext, rules: ReviewRules) -> bool:
    """Reports whether Stowage does not manage the job itself, but its pods, because they name a gang. Raises InvalidObject."""
    if is_part(job, rules) or is_managed(job, context) or kind.finished(job) is not None:
        return False
    pod_sets = kind.pod_sets(job, topology=False)
    return any(names_gang(pod_set.template.get("metadata") or {}) for pod_set in pod_sets)


def simulated(obj: Mapping[str, Any], annotation: str) -> float | None:
    """Returns the duration in an annotation in seconds, None if absent. Raises InvalidObject."""
    text = (obj["metadata"].get("annotations") or {}).get(annotation)
    if text is None:
        return None
    try:
        return seconds(str(text))
    except ValueError as bad:
        raise InvalidObject(f"metadata.annotations[{annotation}]", text, str(bad)) from None


def duration(obj: Mapping[str, Any]) -> float | None:
    """Returns the object's run time in a simulation in seconds, None if not set. Raises InvalidObject."""
    return simulated(obj, SIMULATED_DURATION)


def checkpoints(obj: Mapping[str, Any]) -> float | None:
    """Returns the seconds between two checkpoints in a simulation, None if not set. Raises InvalidObject."""
    every = simulated(obj, SIMULATED_CHECKPOINTS)
    if every is not None and every <= 0:
        text = obj["metadata"]["annotations"][SIMULATED_CHECKPOINTS]
        raise InvalidObject(f"metadata.annotations[{SIMULATED_CHECKPOINTS}]", text, "must be more than 0")
    return every


def arrival(obj: Mapping[str, Any]) -> float | None:
    """Returns the arrival in seconds after the simulation's start, None if not set. Raises InvalidObject."""
    return simulated(obj, SIMULATED_ARRIVAL)
