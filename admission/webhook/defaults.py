"""The defaults of a managed job at its creation.

It is suspended, given the LocalQueue `default` where its namespace has one and it names none, and
(`ReviewRules.gate_at_creation`) the topology gate with what is known of its annotations goes into every template that asks for
a topology explicitly. The Workload's name hangs on the job's uid, which is not there yet at creation (with generateName
not even the name is), so `topology-workload` and `workload` are written now only where the job names a prebuilt
Workload; else they are completed in the update that starts the job. Kueue puts no gate in at creation: with
`gate_at_creation` off the defaults are exactly its own, which is how the conformance cases run.

Managed is a job that names a queue (or any job with `manage_jobs_without_queue_name`) in a managed namespace and that
is no part of another managed job. One that names none and whose pods are of a Sakkara group is left to them. Pure; endpoints.py
calls it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from admission.integrations.paths import value_at
from admission.webhook import schedulers
from admission.webhook.gangs import in_group
from admission.webhook.jobs import (
    Job,
    ReviewedKind,
    annotations_of,
    is_part,
    labels_of,
    prebuilt_workload,
    queue_name,
)
from admission.webhook.lookups import MULTIKUEUE_CONTROLLER, Lookups
from admission.webhook.rules import ReviewRules
from admission.webhook.template import Template
from api import names
from api.labels import matches
from api.meta import object_key
from api.requests import asks_for_topology

DEFAULT_QUEUE: Final = "default"
DEFAULT_CLASS: Final = "default"


def in_managed_namespace(namespace: str, lookups: Lookups, rules: ReviewRules) -> bool:
    """Whether jobs of that namespace are ours; the name alone is known even before the namespace itself is."""
    if rules.managed_namespaces is None:
        return True
    labels = {**(lookups.namespace_labels(namespace) or {}), "kubernetes.io/metadata.name": namespace}
    return matches(rules.managed_namespaces, labels)


def set_defaults(job: Job, namespace: str, kind: ReviewedKind, lookups: Lookups, rules: ReviewRules) -> None:
    """Change a job that is being created in place; a job that is not managed stays as it is."""
    if is_part(job, rules) or kind.is_skipped(job) or not in_managed_namespace(namespace, lookups, rules):
        return
    if not queue_name(job) and any(in_group(template.body) for template in kind.templates(job)):
        return
    if not queue_name(job) and (queue := default_queue(namespace, lookups)) is not None:
        _put(job, "metadata", "labels", {names.QUEUE_NAME_LABEL: queue})
    if not (queue_name(job) or rules.manage_jobs_without_queue_name):
        return
    if (named := default_priority_class(job, lookups)) is not None:
        _put(job, "metadata", "labels", {names.PRIORITY_CLASS_LABEL: named})
    schedulers.take_over_templates(kind.templates(job), rules)
    if not kind.is_suspended(job):
        *above, suspend = kind.suspend
        _put(job, *above, {suspend: kind.suspended})
    _hand_over(job, namespace, kind, lookups, rules)
    if rules.gates.topology_aware_scheduling:
        _gate(job, kind, rules)


def default_priority_class(obj: Job, lookups: Lookups) -> str | None:
    """The WorkloadPriorityClass of a new object that names none: the one called `default`, where there is one."""
    named = names.PRIORITY_CLASS_LABEL in labels_of(obj)
    return DEFAULT_CLASS if not named and DEFAULT_CLASS in lookups.workload_priority_classes else None


def is_opted_in(namespace: str, lookups: Lookups) -> bool:
    """Whether the namespace says that its jobs without a queue name are to come to us as well."""
    return (lookups.namespace_labels(namespace) or {}).get(names.MANAGED_NAMESPACE) == "true"


def default_queue(namespace: str, lookups: Lookups) -> str | None:
    """The queue of a job that names none: `default`, else the namespace's elastic quota."""
    if object_key(namespace, DEFAULT_QUEUE) in lookups.local_queues:
        return DEFAULT_QUEUE
    return names.ELASTIC_QUOTA if lookups.has_elastic_quota(namespace) else None


def _hand_over(job: Job, namespace: str, kind: ReviewedKind, lookups: Lookups, rules: ReviewRules) -> None:
    """Leave the job to the controller of other clusters where its queue says so and the job names no other controller."""
    if not rules.gates.multi_kueue or value_at(job, kind.managed_by) not in (None, kind.controller):
        return
    queue = lookups.cluster_queue_of(namespace, queue_name(job))
    if queue is not None and lookups.uses_multikueue(queue):
        *above, field = kind.managed_by
        _put(job, *above, {field: MULTIKUEUE_CONTROLLER})


def _gate(job: Job, kind: ReviewedKind, rules: ReviewRules) -> None:
    asked, prebuilt = annotations_of(job), prebuilt_workload(job)[1]
    workload = {names.TOPOLOGY_WORKLOAD: prebuilt, names.WORKLOAD_ANNOTATION: prebuilt} if prebuilt else {}
    for template in kind.templates(job):
        if asks_for_topology(template.annotations, asked):
            _gate_template(template, workload)


def _gate_template(template: Template, workload: Mapping[str, str]) -> None:
    _put(template.body, "metadata", "annotations", {names.TOPOLOGY_PODSET: template.pod_set, **workload})
    _put(template.body, "metadata", "labels", {names.PODSET_LABEL: template.pod_set})
    spec = template.body.setdefault("spec", {})
    present = spec.get("schedulingGates") or []
    if not any(gate.get("name") == names.TOPOLOGY_GATE for gate in present):
        spec["schedulingGates"] = [*present, {"name": names.TOPOLOGY_GATE}]


def _put(obj: Job, *path_and_entries: Any) -> None:
    """Write the entries at the path. Where something else than a map stands on the way, validation refuses the object."""
    *path, entries = path_and_entries
    for name in path:
        if not obj.get(name):
            obj[name] = {}
        obj = obj[name]
        if not isinstance(obj, dict):
            return
    obj.update(entries)
