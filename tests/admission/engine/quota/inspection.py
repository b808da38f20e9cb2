"""What tests ask of a quota tree and the product does not."""

from __future__ import annotations

from admission.engine.model import FlavorResource
from admission.engine.quota.tree import QuotaTree


def cohort_usage(quota: QuotaTree, cohort: str) -> dict[FlavorResource, int]:
    """What the cohort's members use beyond what they hold back."""
    node = quota._cohorts.get(cohort)
    return dict(node.usage) if node else {}


def cyclic_cohorts(quota: QuotaTree) -> frozenset[str]:
    """The cohorts that are their own ancestors."""
    return quota._on_cycle
