"""GangGroups in the cycle: the turn of a member decides on the whole group."""

from __future__ import annotations

from collections.abc import Sequence

from admission.engine.cycle.feature import CycleContext, CycleParts, Feature, Turn
from admission.engine.cycle.heads.head_order import Head
from admission.engine.cycle.together import starts_with_others
from admission.engine.decision import Decision
from admission.engine.features.gang_groups.group_decisions import GroupDecisions
from admission.engine.features.gang_groups.groups import GangReason, Groups
from admission.engine.model import ClusterQueue, Workload


class GangGroups(Feature):
    """Decides on groups as a whole. It remembers which groups the cycle has refused."""

    field = "gang"
    reasons = GangReason

    def __init__(self, context: CycleContext) -> None:
        super().__init__(context)
        self._decisions: GroupDecisions | None = None

    def turn(self, workload: Workload) -> Turn | None:
        """Returns that the group decides, if the head starts together with others."""
        return Turn(decide=self._decide) if starts_with_others(workload) else None

    def _decide(self, head: Head, queue: ClusterQueue, parts: CycleParts) -> Sequence[Decision]:
        if self._decisions is None:
            groups = Groups(self.ledger, self.queues, parts)
            self._decisions = GroupDecisions(groups, parts.outcomes, parts.reservations)
        return self._decisions.decide(head, queue)
