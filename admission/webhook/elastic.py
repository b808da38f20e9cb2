"""ElasticQuotas: amounts that make sense, and one object in a namespace, whichever of the two groups it is of.

Two that are created in the same moment may both pass, since look-ups are a moment behind: then the older one holds and the
other one's status says so (controllers/elastic). Objects are plain dicts. Pure; endpoints.py calls it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from admission.webhook.fields import Errors, FieldPath, forbidden, invalid
from admission.webhook.formats import label_name, not_negative
from admission.webhook.lookups import Lookups
from api.quantity import parse

Wire = Mapping[str, Any]

_SPEC: Final = FieldPath("spec")
_NAMESPACE: Final = FieldPath("metadata").child("namespace")


def validate_create(quota: Wire, group: str, namespace: str, lookups: Lookups) -> Errors:
    """The errors of a new ElasticQuota of that API group."""
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
    """The errors of its amounts."""
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
