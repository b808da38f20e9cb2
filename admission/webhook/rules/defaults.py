"""Sets the defaults of a managed job at its creation, and its gates again when a manifest without them is applied.

A job is managed if it names a queue (or with `manage_jobs_without_queue_name`, any job) in a managed namespace and is not
part of another managed job. A job without a queue name whose pods belong to a Sakkara group is not managed; its pods are. So
are the pods of a gang whose queue only the template names.

The job is suspended. Without a queue name it gets the LocalQueue `default`, if its namespace has one. With the feature gate
TopologyAwareScheduling, templates that request a topology explicitly get the topology gate and its annotations, which Kueue
does not add at creation. The annotations `topology-workload` and `workload` need the Workload's name, which depends on the
job's uid. The uid is unknown at creation, so the webhook writes them only for a prebuilt Workload; otherwise the update that
starts the job does.

Pure; reviewed_jobs.py calls it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from admission.integrations.paths import value_at
from admission.integrations.podset import OWN_ANNOTATIONS, OWN_LABELS
from admission.webhook.rules import schedulers
from admission.webhook.rules.gangs import has_queued_gang, in_group
from admission.webhook.rules.jobs import (
    Job,
    ReviewedKind,
    annotations_of,
    is_part,
    labels_of,
    prebuilt_workload,
    queue_name,
)
from admission.webhook.rules.lookups import Lookups
from admission.webhook.rules.review_rules import ReviewRules
from admission.webhook.rules.template import Template
from api import names
from api.annotations.requests import asks_for_topology
from api.meta import object_key
from api.pod.labels import matches

DEFAULT_CLASS: Final = "default"


def in_managed_namespace(namespace: str, lookups: Lookups, rules: ReviewRules) -> bool:
    """Reports whether jobs of the namespace are managed. Uses the namespace's name alone while its labels are unknown."""
    if rules.managed_namespaces is None:
        return True
    labels = {**(lookups.namespace_labels(namespace) or {}), names.NAMESPACE_NAME_LABEL: namespace}
    return matches(rules.managed_namespaces, labels)


def set_defaults(job: Job, namespace: str, kind: ReviewedKind, lookups: Lookups, rules: ReviewRules) -> None:
    """Completes a new job in place; leaves a job that is not managed unchanged.

    A job that cleans up after another one has the pod template of that, whose gate nobody would open.
    """
    if is_part(job, rules) and labels_of(job).get(names.RAY_NODE_TYPE) == names.RAY_REDIS_CLEANUP:
        for template in kind.templates(job):
            _open(template)
    if is_part(job, rules) or kind.is_skipped(job) or not in_managed_namespace(namespace, lookups, rules):
        return
    if _copies_queue(job, kind, rules):
        job["metadata"]["labels"][names.QUEUE_NAME_LABEL] = ""
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


def gate_again(job: Job, old: Job, namespace: str, kind: ReviewedKind, lookups: Lookups, rules: ReviewRules) -> None:
    """Puts back, in place, the gates and annotations that an update takes from the templates of a job that waits.

    kubectl without `--server-side` replaces lists of custom resources whole, and with them the templates of a JobSet.
    """
    waits = queue_name(old) and queue_name(job) and kind.is_suspended(old) and kind.is_suspended(job)
    if not waits or kind.is_skipped(job) or not in_managed_namespace(namespace, lookups, rules):
        return
    if rules.gates.topology_aware_scheduling:
        _gate(job, kind, rules)


def _copies_queue(job: Job, kind: ReviewedKind, rules: ReviewRules) -> bool:
    """Reports whether the job names a queue only because the API server gave a Job without labels those of its template.

    The name is its gang's, whose pods are admitted and not the job. An empty name takes its place: without any label, the
    API server would copy them once more.
    """
    labels = labels_of(job)
    if rules.manage_jobs_without_queue_name or not labels.get(names.QUEUE_NAME_LABEL):
        return False
    return any(template.labels == labels and has_queued_gang(template.body) for template in kind.templates(job))


def default_priority_class(obj: Job, lookups: Lookups) -> str | None:
    """Returns the WorkloadPriorityClass `default` for an object that names none, if it exists, else None."""
    named = names.PRIORITY_CLASS_LABEL in labels_of(obj)
    return DEFAULT_CLASS if not named and DEFAULT_CLASS in lookups.workload_priority_classes else None


def is_opted_in(namespace: str, lookups: Lookups) -> bool:
    """Reports whether the namespace's label opts in jobs without a queue name."""
    return (lookups.namespace_labels(namespace) or {}).get(names.MANAGED_NAMESPACE) == "true"


def is_opted_out(namespace: str, lookups: Lookups) -> bool:
    """Reports whether the namespace's label has another value than `true`."""
    return (lookups.namespace_labels(namespace) or {}).get(names.MANAGED_NAMESPACE, "true") != "true"


def default_queue(namespace: str, lookups: Lookups) -> str | None:
    """Returns the default queue for jobs of the namespace: `default`, else its elastic quota, else None."""
    if object_key(namespace, names.DEFAULT_QUEUE) in lookups.local_queues:
        return names.DEFAULT_QUEUE
    return names.ELASTIC_QUOTA if lookups.has_elastic_quota(namespace) else None


def _hand_over(job: Job, namespace: str, kind: ReviewedKind, lookups: Lookups, rules: ReviewRules) -> None:
    """Sets `managedBy` to MultiKueue if the job's queue uses it and the job names no other controller."""
    if not rules.gates.multi_kueue or value_at(job, kind.managed_by) not in (None, kind.controller):
        return
    queue = lookups.cluster_queue_of(namespace, queue_name(job))
    if queue is not None and lookups.uses_multikueue(queue):
        *above, field = kind.managed_by
        _put(job, *above, {field: names.MULTIKUEUE})


def _gate(job: Job, kind: ReviewedKind, rules: ReviewRules) -> None:
    annotations, prebuilt = annotations_of(job), prebuilt_workload(job)[1]
    workload = {names.TOPOLOGY_WORKLOAD: prebuilt, names.WORKLOAD_ANNOTATION: prebuilt} if prebuilt else {}
    for template in kind.templates(job):
        if asks_for_topology(template.annotations, annotations):
            _gate_template(template, workload)


def _gate_template(template: Template, workload: Mapping[str, str]) -> None:
    _put(template.body, "metadata", "annotations", {names.TOPOLOGY_PODSET: template.pod_set, **workload})
    _put(template.body, "metadata", "labels", {names.PODSET_LABEL: template.pod_set})
    spec = template.body.setdefault("spec", {})
    present = spec.get("schedulingGates") or []
    if not any(gate.get("name") == names.TOPOLOGY_GATE for gate in present):
        spec["schedulingGates"] = [*present, {"name": names.TOPOLOGY_GATE}]


def _open(template: Template) -> None:
    """Removes from a template what makes the ungater and the controller take its pods for those of a Workload."""
    spec, meta = template.body.get("spec") or {}, template.body.get("metadata") or {}
    if gates := spec.get("schedulingGates"):
        spec["schedulingGates"] = [gate for gate in gates if gate.get("name") != names.TOPOLOGY_GATE]
    for part, keys in (("labels", OWN_LABELS), ("annotations", OWN_ANNOTATIONS)):
        for key in keys & (meta.get(part) or {}).keys():
            del meta[part][key]


def _put(obj: Job, *path_and_entries: Any) -> None:
    """Writes the entries at the path. Ignores a value on the path that is not a map: validation rejects that object."""
    *path, entries = path_and_entries
    for name in path:
        if not obj.get(name):
            obj[name] = {}
        obj = obj[name]
        if not isinstance(obj, dict):
            return
    obj.update(entries)
