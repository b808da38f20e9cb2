"""From the manifest of an object to what the API server would hold, and from a job to its Workload.

The webhook's own defaults and validation, the adapters' own pod sets, the job controller's own Workload: only the API server
between them is left out. Called by files.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from admission.controllers.cluster_view import ClusterView
from admission.controllers.jobs.context import JobContext
from admission.controllers.jobs.workload import composed, is_managed
from admission.integrations.base import JobIntegration
from admission.integrations.gang import names_gang
from admission.integrations.registry import KINDS
from admission.integrations.sets import SCALED
from admission.webhook import owners
from admission.webhook.endpoints import CREATE, ENDPOINTS, Request, declared_endpoint
from admission.webhook.fields import aggregate
from admission.webhook.gang_pods import GangPod
from admission.webhook.jobs import is_part
from admission.webhook.lookups import Lookups
from admission.webhook.rules import ReviewRules
from api.duration import seconds
from api.errors import InvalidObject, StowageError
from api.kube.resources import PODS, Resource
from api.names import QUEUE_NAME_LABEL, SIMULATED_ARRIVAL, SIMULATED_DURATION
from api.workloads import Workload

Object = dict[str, Any]
Decode = Callable[[Resource, bytes], object]

_ENDPOINTS: Final = {endpoint.resource: endpoint for endpoint in ENDPOINTS}


def job_kinds() -> dict[Resource, JobIntegration]:
    """The adapters by resource."""
    return {adapter.resource: adapter for adapter in KINDS.adapters()}


class NotOurs(StowageError):
    """A job that Stowage would leave alone; the text says why."""


def lookups(view: ClusterView, gang_pods: Callable[[str], Iterable[GangPod]]) -> Lookups:
    """What the webhook would know; `gang_pods` are the pods of a gang by its key."""

    def labels(namespace: str) -> Mapping[str, str] | None:
        found = view.namespaces.objects.get(namespace)
        return found.metadata.labels if found else None

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


def completed(resource: Resource, obj: Object, known: Lookups, rules: ReviewRules, decode: Decode) -> Object:
    """The object as it would be stored: defaults put in, in place.

    Raises InvalidObject for one that cannot be read, RejectedByWebhook for one that the webhook would not let in. The rules
    read what the schema lets in; here there is no schema, so `decode` says what is wrong with the rest.
    """
    endpoint = _ENDPOINTS.get(resource) or declared_endpoint((resource.group, resource.kind))
    if endpoint is None:
        return obj
    meta = obj["metadata"]
    claimed = owners.claim(obj, rules, pod=True) if resource == PODS else None
    # Files and snapshots are believed: of a pod's owner only the name stands there.
    owner = {"metadata": {"uid": claimed.uid}} if claimed is not None and SCALED.get(claimed.kind) is not None else None
    request = Request("", CREATE, meta.get("name", ""), meta.get("namespace", ""), obj, owner=owner)
    try:
        if endpoint.mutate is not None:
            endpoint.mutate(obj, request, known, rules)
        errors = endpoint.validate(request, known, rules)
    except (TypeError, AttributeError, ValueError) as bad:
        decode(resource, msgspec.json.encode(obj))
        raise InvalidObject("spec", meta.get("name", ""), f"cannot be read: {bad}") from None
    if errors:
        raise RejectedByWebhook(aggregate(errors))
    return obj


class RejectedByWebhook(StowageError):
    """The webhook would not let it in; in its own words."""


def workload_of(job: Object, kind: JobIntegration, context: JobContext, rules: ReviewRules) -> Workload | None:
    """The Workload that the controller would make; None for a job that is over, or part of another one.

    Raises NotOurs, InvalidObject, PriorityClassMissing.
    """
    if is_part(job, rules) or kind.finished(job) is not None:
        return None
    if not is_managed(job, context):
        namespace = job["metadata"].get("namespace") or ""
        if not context.options.namespace_managed(namespace):
            raise NotOurs(f"jobs of namespace {namespace} are not managed, so nothing holds it back")
        raise NotOurs(f"names no queue (label {QUEUE_NAME_LABEL}), so nothing holds it back")
    return composed(job, kind, context)


def left_to_gangs(job: Object, kind: JobIntegration, context: JobContext, rules: ReviewRules) -> bool:
    """Whether it is no job of ours, but its pods are of gangs, so that they are held and it is not. Raises InvalidObject."""
    if is_part(job, rules) or is_managed(job, context) or kind.finished(job) is not None:
        return False
    pod_sets = kind.pod_sets(job, topology=False)
    return any(names_gang(pod_set.template.get("metadata") or {}) for pod_set in pod_sets)


def simulated(obj: Mapping[str, Any], annotation: str) -> float | None:
    """The seconds that the annotation says, None where it is not there. Raises InvalidObject."""
    text = (obj["metadata"].get("annotations") or {}).get(annotation)
    if text is None:
        return None
    try:
        return seconds(str(text))
    except ValueError as bad:
        raise InvalidObject(f"metadata.annotations[{annotation}]", text, str(bad)) from None


def duration(obj: Mapping[str, Any]) -> float | None:
    """How long it runs in a simulation, where it says so. Raises InvalidObject."""
    return simulated(obj, SIMULATED_DURATION)


def arrival(obj: Mapping[str, Any]) -> float | None:
    """How long after the beginning of a simulation it comes, where it says so. Raises InvalidObject."""
    return simulated(obj, SIMULATED_ARRIVAL)
