"""Parts of jobs that are admitted as a whole: a JobSet's Job, a RayJob's RayCluster, a TrainJob's JobSet. Pure.

A part has no Workload. It was admitted with its owner, and its pods run as soon as its own controller makes them, so a part
that anybody else makes larger runs pods that nobody admitted. Only the owner's controller and users who may update Workloads
(rights.py) may do that. Others may change a part within what its owner's spec says: no more pods, no larger ones, the same
gates, marks and places, and suspended as long as the owner is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from admission.integrations.children import fault_of_part, fault_of_start
from admission.integrations.elastic import as_elastic, asks_for_elastic
from admission.integrations.pods.pod import role_hash
from admission.integrations.registry import KINDS
from admission.webhook.guards import owners
from admission.webhook.guards.marks import closed_gates, marks_of, may_mark
from admission.webhook.rules.fields import Errors, FieldError, FieldPath, forbidden
from admission.webhook.rules.jobs import ReviewedKind
from admission.webhook.rules.review_rules import ReviewRules, is_cluster_controller
from admission.webhook.rules.template import Template
from api.kube.resources import Resource

Obj = Mapping[str, Any]

_REFERENCES: Final = FieldPath("metadata").child("ownerReferences")
_KEPT: Final = "the job that owns this object was admitted with it as it is; change the owner"


def changed_by_hand(
    old: Obj, new: Obj, kind: ReviewedKind, resource: Resource, owner: Obj | None, user: str, rules: ReviewRules
) -> Errors:
    """Returns the errors of an update of a part, none if the object is no part.

    `owner` is the part's owner; without it, each change by which more could run is an error.
    """
    claimed = owners.claim(old, rules, pod=False)
    if claimed is None:
        return []
    errors: Errors = []
    if owners.controllers(old) != owners.controllers(new) and not is_cluster_controller(user):
        errors.append(forbidden(_REFERENCES, "a part of a job that is admitted as a whole stays with its owner"))
    if old.get("spec") != new.get("spec"):
        errors += _unlike(old, new, kind)
        if is_larger(old, new, kind) and (fault := _fault(new, claimed, resource, owner)):
            errors.append(forbidden(FieldPath("spec"), f"the {claimed.kind[1]} {claimed.name} {fault}"))
    return errors


def is_larger(old: Obj, new: Obj, kind: ReviewedKind) -> bool:
    """Reports whether the update starts the part, or gives it more or other pods."""
    if kind.is_suspended(old) and not kind.is_suspended(new):
        return True
    before = {template.pod_set: template for template in kind.templates(dict(old))}
    after = kind.templates(dict(new))
    return any(each.pod_set not in before or _is_more(each, before[each.pod_set]) for each in after)


def _is_more(new: Template, old: Template) -> bool:
    return new.count > old.count or role_hash(new.body.get("spec") or {}) != role_hash(old.body.get("spec") or {})


def _fault(part: Obj, claimed: owners.ControllerRef, resource: Resource, owner: Obj | None) -> str:
    """Returns what the owner's spec does not allow, or an empty string."""
    if owner is None or (owner.get("metadata") or {}).get("uid") != claimed.uid:
        return "does not exist any more, and so admits nothing"
    above, own = KINDS.get(claimed.kind), KINDS.get((resource.group, resource.kind))
    # An autoscaler writes into the part of an elastic job; the pods have the gate of elastic jobs.
    elastic = above is not None and as_elastic(above) is not None and asks_for_elastic(dict(owner))
    return fault_of_part(part, own, owner, above, counted=not elastic) or fault_of_start(part, own, owner, above)


def _unlike(old: Obj, new: Obj, kind: ReviewedKind) -> Iterator[FieldError]:
    """Yields the errors of templates that lose a gate, or get other marks or places."""
    before = {template.pod_set: template for template in kind.templates(dict(old))}
    for template in kind.templates(dict(new)):
        if (known := before.get(template.pod_set)) is None or known.body == template.body:
            continue
        spec, at = template.body.get("spec") or {}, template.path
        known_spec = known.body.get("spec") or {}
        if closed_gates(known.body) - closed_gates(template.body):
            yield forbidden(at.child("spec", "schedulingGates"), _KEPT)
        if (spec.get("nodeSelector") or {}) != (known_spec.get("nodeSelector") or {}):
            yield forbidden(at.child("spec", "nodeSelector"), _KEPT)
        if marks_of(template.body) != marks_of(known.body):
            yield forbidden(at.child("metadata"), _KEPT)


def marked_by_hand(old: Obj, new: Obj, kind: ReviewedKind, rules: ReviewRules) -> Iterator[FieldError]:
    """Yields the errors of marks that an update writes into the templates of a job that nobody admits."""
    if may_mark(new, rules) or old.get("spec") == new.get("spec"):
        return
    before = {template.pod_set: marks_of(template.body) for template in kind.templates(dict(old))}
    for template in kind.templates(dict(new)):
        if (marks := marks_of(template.body)) and marks != before.get(template.pod_set):
            yield forbidden(template.path.child("metadata"), "a job that names no queue gets no marks of a Workload")
