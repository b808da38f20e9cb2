"""Elastic jobs in the cycle: the turn of a slice that replaces an admitted one starts as many more pods as fit."""

from __future__ import annotations

from collections.abc import Sequence

from admission.engine.cycle.feature import CycleParts, Feature, Turn
from admission.engine.cycle.heads.head_order import Head
from admission.engine.cycle.solve import Unsolved
from admission.engine.decision import Decision
from admission.engine.features.elastic.growth import grow, slice_released
from admission.engine.model import ClusterQueue, Workload
from admission.engine.reasons import Reason


class ElasticJobs(Feature):
    """Decides on slices that replace admitted ones."""

    field = "replaces"

    def turn(self, workload: Workload) -> Turn | None:
        """Returns that the slice grows, while the one that it replaces has its quota."""
        if self.ledger.admission(workload.replaces) is None:
            return None
        return Turn(search=slice_released(self.ledger, workload), decide=self._grow)

    def _grow(self, head: Head, queue: ClusterQueue, parts: CycleParts) -> Sequence[Decision]:
        replaced = head.workload.replaces
        running = self.ledger.workload(replaced)
        if replaced in parts.reservations.leaving or (running is not None and running.evicted):
            # Else the slice would run in place of the one that leaves, and who evicts that one would wait for nothing.
            return (parts.outcomes.wait(head, queue, Reason.WAITING_FOR_QUOTA, f"{replaced} is being evicted"),)
        leaves_quota = parts.reservations.leave_quota_for
        growth = grow(self.ledger, head.workload, queue, parts.now, leaves_quota, fair=parts.fair)
        if isinstance(growth, Unsolved):
            return (parts.outcomes.wait(head, queue, growth.reason, growth.message),)
        if parts.order.goes_back(head, growth.assignment.level):
            return ()
        return (parts.outcomes.start(head, queue, growth),)
