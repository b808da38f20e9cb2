"""The fair shares that queues and cohorts show in their status: what they borrow against their weight, from the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from admission.engine.quota.fairness import dominant_share
from admission.engine.quota.tree import QuotaTree


class Shares(Protocol):
    """Weighted shares as the status shows them; None where fair sharing is off."""

    def of_queue(self, name: str) -> int | None:
        """Of a ClusterQueue."""

    def of_cohort(self, name: str) -> int | None:
        """Of a Cohort."""

    def cohorts_above(self, queue: str) -> Sequence[str]:
        """The cohorts whose shares the ClusterQueue's usage changes."""


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

    def cohorts_above(self, queue: str) -> Sequence[str]:
        """From its own cohort to the root."""
        node = self._quota.node(queue)
        return () if node is None else [ancestor.name for ancestor in node.ancestors()]


class _Off:
    def of_queue(self, name: str) -> int | None:
        return None

    def of_cohort(self, name: str) -> int | None:
        return None

    def cohorts_above(self, queue: str) -> Sequence[str]:
        return ()


NO_SHARES: Shares = _Off()
