"""Validates ElasticQuotas: consistent amounts, and at most one ElasticQuota per namespace across both API groups.

Two that are created at the same moment may both pass, because the lookups lag. Then the older one counts, and the status of
the other says so (controllers/elastic_quota). Objects are plain dicts. Pure; endpoints.py calls it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from admission.webhook.kind_rules import KindRules
from admission.webhook.review_request import CREATE, Request
from admission.webhook.rules.fields import Errors, FieldPath, forbidden, invalid
from admission.webhook.rules.formats import label_name, not_negative
from admission.webhook.rules.lookups import Lookups
from admission.webhook.rules.review_rules import ReviewRules
from api.text.quantity import parse

Wire = Mapping[str, Any]

_SPEC: Final = FieldPath("spec")
_NAMESPACE: Final = FieldPath("metadata").child("namespace")


def validate_create(quota: Wire, group: str, namespace: str, lookups: Lookups) -> Errors:
    """Returns the errors of a new ElasticQuota of that API group."""
    errors = validate(quota)
    name = (quota.get("metadata") or {}).get("name", "")
    for other_group, other in lookups.elastic_quotas(namespace):
        if (other_group, other) != (group, name):
            text = (
                f'namespace "{namespace}" has the ElasticQuota "{other}" ({other_group}): there is one for a namespace'
            )
            return [forbidden(_NAMESPACE, text), *errors]
    return errors


def validate(quota: Wire) -> Errors:
    """Returns the errors of the quota's `min` and `max`."""
    spec = quota.get("spec") or {}
    least, most = spec.get("min") or {}, spec.get("max") or {}
    errors = [*_amounts(_SPEC.child("min"), least), *_amounts(_SPEC.child("max"), most)]
    return errors or [error for name in least if name in most for error in _order(name, least[name], most[name])]


def _amounts(at: FieldPath, amounts: Wire) -> Errors:
    errors: Errors = []
    for name, amount in amounts.items():
        errors += [*label_name(at.key(name), name), *not_negative(at.key(name), amount)]
    return errors


def _order(name: str, least: str | int, most: str | int) -> Errors:
    if parse(least) <= parse(most):
        return []
    at, limit = _SPEC.child("min").key(name), _SPEC.child("max").key(name)
    return [invalid(at, str(least), f"must be less than or equal to {limit}, which is {most}")]


class ElasticQuotaRules(KindRules):
    """The rules of ElasticQuotas of either dialect."""

    def validate(self, request: Request, lookups: Lookups, rules: ReviewRules) -> Errors:
        """See validate_create and validate."""
        if request.operation == CREATE:
            return validate_create(request.new, self.resource.group, request.namespace, lookups)
        return validate(request.new)
