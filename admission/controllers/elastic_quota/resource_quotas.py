"""Compares an elastic quota with the ResourceQuotas of its namespace: min <= max <= hard. Pure; used by quota_controller.py.

What is above `hard` can never be used: the API server refuses the pods beyond it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from admission.controllers.elastic_quota.translation import QuotaBounds
from admission.engine.listed import listed
from api.errors import InvalidObject
from api.pod import pods
from api.text.quantity import to_int, to_text

_FORMS: Final = ("", "requests.", "limits.", "count/")
"""What a key of `hard` has before a resource. Limits count too: pods never request more than these."""


class ResourceQuotaSpec(msgspec.Struct, frozen=True, rename="camel"):
    """Amounts, and which pods they are for."""

    hard: dict[str, str | int | float] = {}
    scopes: tuple[str, ...] = ()
    scope_selector: dict[str, Any] | None = None


class ResourceQuota(msgspec.Struct, frozen=True, rename="camel"):
    """A namespace's ResourceQuota."""

    metadata: pods.Meta = pods.Meta()
    spec: ResourceQuotaSpec = ResourceQuotaSpec()


def above_hard(bounds: QuotaBounds, quotas: Iterable[ResourceQuota]) -> str:
    """Says where max, or min without a max, is above the least `hard` of quotas for all pods; empty if nowhere."""
    every = [quota for quota in quotas if not quota.spec.scopes and quota.spec.scope_selector is None]
    return listed(list(_texts(bounds, every)))


def _texts(bounds: QuotaBounds, quotas: Iterable[ResourceQuota]) -> Iterator[str]:
    for resource in sorted({*bounds.least, *bounds.most}):
        field, amount = ("max", bounds.most[resource]) if resource in bounds.most else ("min", bounds.least[resource])
        allowed = [(hard, quota.metadata.name) for quota in quotas for hard in _amounts(resource, quota.spec.hard)]
        if allowed and amount > min(allowed)[0]:
            hard, name = min(allowed)
            yield (
                f"{field} is {to_text(resource, amount)} {resource} "
                f"(the ResourceQuota {name} allows {to_text(resource, hard)})"
            )


def _amounts(resource: str, hard: Mapping[str, str | int | float]) -> Iterator[int]:
    for form in _FORMS:
        if (amount := hard.get(f"{form}{resource}")) is not None:
            try:
                yield to_int(resource, amount)
            except InvalidObject:
                continue
