"""apps/v1 StatefulSet: its pods are admitted as one group. Pure; endpoints.py calls it.

It may be scaled to zero and from zero, because its whole group then ends or starts. Other changes of its size are refused
while it has pods, as in Kueue, because its Workload is for another number. `kubectl scale` writes a subresource that this
webhook does not see; the controller handles it (controllers/pods/sets/setplan.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from admission.integrations.sets.statefulset import MAIN, StatefulSet
from admission.webhook.guards import reserved_queues
from admission.webhook.kind_rules import KindRules
from admission.webhook.kinds import sets
from admission.webhook.review_request import Request
from admission.webhook.rules import schedulers
from admission.webhook.rules.fields import IMMUTABLE, Errors, FieldPath, forbidden, invalid
from admission.webhook.rules.jobs import Job, ReviewedKind, queue_name
from admission.webhook.rules.lookups import Lookups
from admission.webhook.rules.review_rules import ReviewRules
from admission.webhook.rules.template import Template
from api import names

_SPEC: Final = FieldPath("spec")
_REPLICAS: Final = _SPEC.child("replicas")


def templates(obj: Job) -> list[Template]:
    """Returns the pod template. A set scaled to zero has an unlimited count: any slice size is valid for it."""
    body = (obj.get("spec") or {}).get("template")
    return [Template(_SPEC.child("template"), MAIN, sets.replicas_of(obj) or sets.MOST, body)] if body else []


KIND: Final = ReviewedKind("", templates, lambda *_: [], lambda *_: [])


def set_defaults(obj: sets.Set, old: Mapping[str, Any], namespace: str, lookups: Lookups, rules: ReviewRules) -> None:
    """Completes a StatefulSet in place on creation or update; leaves one without a queue unchanged.

    Its pods get the queue when they are created, since Kueue does not write it into the template.
    """
    if not sets.is_managed(obj, namespace, lookups, rules):
        return
    template = obj.setdefault("spec", {}).setdefault("template", {})
    before = (old.get("spec") or {}).get("template") or {}
    sets.mark(template, before, obj, {names.POD_SUSPENDING_PARENT: StatefulSet.framework}, namespace, labels=False)
    schedulers.take_over_templates(templates(obj), rules)


def validate(
    old: Mapping[str, Any] | None, new: sets.Set, namespace: str, lookups: Lookups, rules: ReviewRules
) -> Errors:
    """Returns the errors of a new or changed StatefulSet."""
    errors = sets.validate(old, new, KIND, namespace, lookups, rules)
    if old is None or not queue_name(new):
        return errors
    errors += _scaled(old, new)
    return errors if sets.is_empty(old) else [*errors, *sets.same_shapes(templates(dict(old)), templates(new))]


def _scaled(old: Mapping[str, Any], new: Mapping[str, Any]) -> Errors:
    before, after = sets.replicas_of(old), sets.replicas_of(new)
    if before == after or after == 0:
        return []
    if before:
        return [invalid(_REPLICAS, after, IMMUTABLE)]
    return [] if sets.is_empty(old) else [forbidden(_REPLICAS, "scaling down is still in progress")]


class StatefulSetRules(KindRules):
    """The rules of StatefulSets."""

    completes = updates = True

    def mutate(self, obj: dict[str, Any], request: Request, lookups: Lookups, rules: ReviewRules) -> None:
        """See set_defaults."""
        set_defaults(obj, request.old, request.namespace, lookups, rules)

    def validate(self, request: Request, lookups: Lookups, rules: ReviewRules) -> Errors:
        """See validate."""
        errors = validate(request.old_object, request.new, request.namespace, lookups, rules)
        return errors + reserved_queues.of_request(request, lookups, rules)
