"""apps/v1 Deployment: not admitted itself; its pods are admitted one by one. Pure; endpoints.py calls it.

The webhook copies the Deployment's queue and priority class to its pod template, so that each pod queues by itself. An
annotation there names the Deployment as the parent: such a pod needs no finalizer, because the Deployment replaces it. Kueue
passes over a pod without the managed label, and writes that into the template too. Pods of a gang do need the finalizer, which
shows that a lost member had been bound, so their template gets only the queue.
Changing the queue rolls the Deployment over, as any change of its template does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from admission.webhook.guards import reserved_queues
from admission.webhook.kind_rules import KindRules
from admission.webhook.kinds import sets
from admission.webhook.review_request import Request
from admission.webhook.rules import gangs, schedulers
from admission.webhook.rules.defaults import in_managed_namespace
from admission.webhook.rules.fields import Errors, FieldPath
from admission.webhook.rules.formats import subdomain
from admission.webhook.rules.jobs import labels_of, queue_name
from admission.webhook.rules.lookups import Lookups
from admission.webhook.rules.review_rules import ReviewRules
from admission.webhook.rules.template import Template
from api import names

Deployment = dict[str, Any]

FRAMEWORK: Final = "deployment"
_QUEUE: Final = FieldPath("metadata").child("labels").key(names.QUEUE_NAME_LABEL)
_PROPAGATED: Final = (names.QUEUE_NAME_LABEL, names.PRIORITY_CLASS_LABEL)


def set_defaults(
    deployment: Deployment, old: Mapping[str, Any], namespace: str, lookups: Lookups, rules: ReviewRules
) -> None:
    """Completes a Deployment in place on creation or update; leaves one without a queue name unchanged.

    A template that an earlier release marked stays until it changes anyway: the label alone would restart all pods.
    """
    if not queue_name(deployment) or not in_managed_namespace(namespace, lookups, rules):
        return
    template = deployment.setdefault("spec", {}).setdefault("template", {})
    own = labels_of(deployment)
    _add(template, "labels", {key: own[key] for key in _PROPAGATED if key in own})
    if gangs.reading(template, namespace).gang is None:
        _add(template, "annotations", {names.POD_SUSPENDING_PARENT: FRAMEWORK})
        if template != (old.get("spec") or {}).get("template"):
            _add(template, "labels", {names.MANAGED_LABEL: "true"})
    schedulers.take_over_templates(templates(deployment), rules)


def templates(deployment: Mapping[str, Any]) -> list[Template]:
    """Returns the pod template, as a list of at most one."""
    body = (deployment.get("spec") or {}).get("template")
    return [Template(FieldPath("spec").child("template"), "", 1, body)] if body else []


def _add(template: dict[str, Any], part: str, values: Mapping[str, str]) -> None:
    if not template.get("metadata"):
        template["metadata"] = {}
    metadata = template["metadata"]
    metadata[part] = {**(metadata.get(part) or {}), **values}


def validate(old: Mapping[str, Any] | None, new: Mapping[str, Any], rules: ReviewRules) -> Errors:
    """Returns the errors of a new or updated Deployment. Its queue cannot be removed, or changed once a pod is ready."""
    name = queue_name(new)
    errors = subdomain(_QUEUE, name) if name else []
    if name:
        errors += schedulers.validate_templates(templates(new), templates(old) if old else [], rules)
    return errors if old is None else [*errors, *sets.queue_change(old, new)]


class DeploymentRules(KindRules):
    """The rules of Deployments."""

    completes = updates = True

    def mutate(self, obj: dict[str, Any], request: Request, lookups: Lookups, rules: ReviewRules) -> None:
        """See set_defaults."""
        set_defaults(obj, request.old, request.namespace, lookups, rules)

    def validate(self, request: Request, lookups: Lookups, rules: ReviewRules) -> Errors:
        """See validate."""
        errors = validate(request.old_object, request.new, rules)
        return errors + reserved_queues.of_request(request, lookups, rules)
