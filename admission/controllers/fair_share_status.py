"""The fair shares that queues and cohorts show in their status: what they borrow against their weight, from the ledger."""

from __future__ import annotations

from typing import Protocol

from admission.engine.quota.fairness import dominant_share
from admission.engine.quota.tree import QuotaTree


class StatusShares(Protocol):
    """Weighted shares as the status shows them; None where fair sharing is off."""

    def of_queue(self, name: str) -> int | None:
        """Of a ClusterQueue."""

    def of_cohort(self, name: str) -> int | None:
        """Of a Cohort."""


class LedgerShares:
    """Fair sharing is on."""

    def __init__(self, quota: QuotaTree) -> None:
        self._quota = quota

    def of_queue(self, name: str) -> int | None:
        """Of a ClusterQueue; 0 without a cohort."""
        node = self._quota.node(name)
        return 0 if node is None else dominant_share(node).status

    def of_cohort(self, name: str) -> int | None:
        """Of a Cohort; 0 at a root."""
        node = self._quota.cohort(name)
        return 0 if node is None else dominant_share(node).status


class _Off:
    def of_queue(self, name: str) -> int | None:
        return None

    def of_cohort(self, name: str) -> int | None:
        return None


NO_SHARES: StatusShares = _Off()
