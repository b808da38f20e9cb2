"""apps/v1 Deployment: it is not admitted itself, its pods are, one by one. Pure; endpoints.py calls it.

The queue and the priority class that it names go into its pod template, so that each pod queues by itself; that they are
of something above them is said there too: such a pod needs no finalizer, the next one is made in its place anyway. Pods of a
gang do need it, for it shows that a member had been bound before it was lost: their template gets only the queue.
A change of the queue rolls the Deployment over, as any change of its template does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from admission.webhook import gangs, schedulers, sets
from admission.webhook.defaults import in_managed_namespace
from admission.webhook.fields import Errors, FieldPath
from admission.webhook.formats import subdomain
from admission.webhook.jobs import labels_of, queue_name
from admission.webhook.lookups import Lookups
from admission.webhook.rules import ReviewRules
from admission.webhook.template import Template
from api import names

Deployment = dict[str, Any]

FRAMEWORK: Final = "deployment"
_QUEUE: Final = FieldPath("metadata").child("labels").key(names.QUEUE_NAME_LABEL)
_PROPAGATED: Final = (names.QUEUE_NAME_LABEL, names.PRIORITY_CLASS_LABEL)


def set_defaults(deployment: Deployment, namespace: str, lookups: Lookups, rules: ReviewRules) -> None:
    """Change a Deployment that is created or updated in place; one that names no queue stays as it is."""
    if not queue_name(deployment) or not in_managed_namespace(namespace, lookups, rules):
        return
    template = deployment.setdefault("spec", {}).setdefault("template", {})
    own = labels_of(deployment)
    _add(template, "labels", {key: own[key] for key in _PROPAGATED if key in own})
    if gangs.reading(template, namespace).gang is None:
        _add(template, "annotations", {names.POD_SUSPENDING_PARENT: FRAMEWORK})
    schedulers.take_over_templates(templates(deployment), rules)


def templates(deployment: Mapping[str, Any]) -> list[Template]:
    """The one template."""
    body = (deployment.get("spec") or {}).get("template")
    return [Template(FieldPath("spec").child("template"), "", 1, body)] if body else []


def _add(template: dict[str, Any], part: str, values: Mapping[str, str]) -> None:
    if not template.get("metadata"):
        template["metadata"] = {}
    metadata = template["metadata"]
    metadata[part] = {**(metadata.get(part) or {}), **values}


def validate(old: Mapping[str, Any] | None, new: Mapping[str, Any], rules: ReviewRules) -> Errors:
    """The errors of a new or changed Deployment. Its queue is never removed, and fixed once one of its pods is ready."""
    name = queue_name(new)
    errors = subdomain(_QUEUE, name) if name else []
    if name:
        errors += schedulers.validate_templates(templates(new), templates(old) if old else [], rules)
    return errors if old is None else [*errors, *sets.queue_change(old, new)]
