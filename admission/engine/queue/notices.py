"""Workloads that a cycle did not evaluate, each with the reason, for its status. PendingQueues collects them."""

from __future__ import annotations

from dataclasses import dataclass

from admission.engine.model import Workload
from admission.engine.queue.cluster_queue import order_of
from admission.engine.reasons import ReasonCode


@dataclass(frozen=True, slots=True)
class NotEvaluated:
    """A workload that was not evaluated, and why."""

    workload: Workload
    reason: ReasonCode
    message: str


class EvaluationNotices:
    """At most one notice for each workload: the latest."""

    def __init__(self) -> None:
        self._by_key: dict[str, NotEvaluated] = {}

    def add(self, workload: Workload, reason: ReasonCode, message: str) -> None:
        """Replaces the workload's earlier notice."""
        self._by_key[workload.key] = NotEvaluated(workload, reason, message)

    def drop(self, key: str) -> None:
        """Drops the notice of a workload that is no longer pending."""
        self._by_key.pop(key, None)

    def take(self) -> list[NotEvaluated]:
        """Returns the notices in the order of their workloads and forgets them."""
        taken = sorted(self._by_key.values(), key=lambda notice: order_of(notice.workload))
        self._by_key.clear()
        return taken
