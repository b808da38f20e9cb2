"""Computes from the ledger the fair shares in the status of queues and cohorts: borrowing relative to weight."""

from __future__ import annotations

from typing import Protocol

from admission.engine.quota.fairness import dominant_share
from admission.engine.quota.tree import QuotaTree


class StatusShares(Protocol):
    """Weighted shares for the status, or None if fair sharing is off."""

    def of_queue(self, name: str) -> int | None:
        """Returns the share of a ClusterQueue."""

    def of_cohort(self, name: str) -> int | None:
        """Returns the share of a Cohort."""


class LedgerShares:
    """Weighted shares while fair sharing is on."""

    def __init__(self, quota: QuotaTree) -> None:
        self._quota = quota

    def of_queue(self, name: str) -> int | None:
        """Returns the share of a ClusterQueue; 0 without a cohort."""
        node = self._quota.node(name)
        return 0 if node is None else dominant_share(node).status

    def of_cohort(self, name: str) -> int | None:
        """Returns the share of a Cohort; 0 for a root."""
        node = self._quota.cohort(name)
        return 0 if node is None else dominant_share(node).status


class _Off:
    def of_queue(self, name: str) -> int | None:
        return None

    def of_cohort(self, name: str) -> int | None:
        return None


NO_SHARES: StatusShares = _Off()
