"""Updates by which a user would start a waiting job, or get more pods than were admitted. Pure; reviewed_jobs.py calls it.

Stowage alone starts what is queued. A user who unsuspends a job would run pods outside the quota: Stowage ends them, but only
after the grace period in their own template. The same is true of a user who gives a running job more pods. Gates of pods are
another rule's (marked_pods.py), which holds everywhere.

The rule holds where every pod and job is queued (reserved_queues.is_queued_anyway). Elsewhere a user may leave the queue, and
Kueue's rules hold: what was started is stopped again. A user who may update Workloads decides about admission anyway and may
do all of this (rights.py asks).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from admission.integrations.elastic import as_elastic, asks_for_elastic
from admission.integrations.pods.pod import role_hash
from admission.integrations.registry import KINDS
from admission.webhook.guards.reserved_queues import is_queued_anyway
from admission.webhook.rules.defaults import in_managed_namespace
from admission.webhook.rules.fields import Errors, FieldPath, forbidden
from admission.webhook.rules.jobs import ReviewedKind, is_part, queue_name
from admission.webhook.rules.lookups import Lookups
from admission.webhook.rules.review_rules import ReviewRules
from admission.webhook.rules.template import Template
from api import names
from api.kube.resources import Resource

Obj = Mapping[str, Any]

_ELASTIC: Final = FieldPath("metadata").child("annotations").key(names.ELASTIC_JOB)


def of_job(
    old: Obj, new: Obj, kind: ReviewedKind, resource: Resource, namespace: str, lookups: Lookups, rules: ReviewRules
) -> Errors:
    """Returns the errors of an update that starts a queued job, or gives a running one more pods or larger ones."""
    if kind.is_suspended(new) or not (queue_name(dict(old)) or queue_name(dict(new))):
        return []
    if _is_going(new) or is_part(new, rules) or kind.is_skipped(dict(new)):
        return []
    if not in_managed_namespace(namespace, lookups, rules) or not is_queued_anyway(namespace, lookups, rules):
        return []
    if kind.is_suspended(old):
        at = FieldPath(kind.suspend[0]).child(*kind.suspend[1:])
        return [forbidden(at, "a queued job starts once its workload is admitted; only Stowage starts it")]
    return _growth(dict(old), dict(new), kind, resource, rules)


def _growth(
    old: dict[str, Any], new: dict[str, Any], kind: ReviewedKind, resource: Resource, rules: ReviewRules
) -> Errors:
    if asks_for_elastic(old) is not asks_for_elastic(new):
        return [forbidden(_ELASTIC, "may not change while the job runs: its pods would lack the gate of elastic jobs")]
    if _is_elastic(old, resource, rules):
        return []
    before = {template.pod_set: template for template in kind.templates(old)}
    rule = "a running job may not get more or other pods than were admitted; suspend it in the same update, and it queues anew"
    return [
        forbidden(template.path, rule)
        for template in kind.templates(new)
        if template.pod_set not in before or _is_more(template, before[template.pod_set])
    ]


def _is_elastic(job: dict[str, Any], resource: Resource, rules: ReviewRules) -> bool:
    adapter = KINDS.get((resource.group, resource.kind))
    able = adapter is not None and as_elastic(adapter) is not None
    return able and rules.gates.elastic_jobs_via_workload_slices and asks_for_elastic(job)


def _is_more(new: Template, old: Template) -> bool:
    if new.count > old.count:
        return True
    return new.body != old.body and role_hash(new.body.get("spec") or {}) != role_hash(old.body.get("spec") or {})


def _is_going(obj: Obj) -> bool:
    return bool((obj.get("metadata") or {}).get("deletionTimestamp"))
