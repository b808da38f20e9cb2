"""The place that is held for a head while others leave it: the head may use it, and evicts nobody meanwhile."""

from __future__ import annotations

from typing import Final

from admission.engine.cycle.feature import Feature, Turn
from admission.engine.ledger.holds import HoldKind, hold_key
from admission.engine.model import Workload
from admission.engine.reasons import ReasonCode, ReasonOwner

PLACE_HELD: Final = "the workloads that leave its place for others have not left yet; the place is held for it"


class MoveReason(ReasonCode):
    """Why the gang waits for which others move."""

    WAITING_FOR_MOVED = (
        "WaitingForMovedWorkloads",
        "its place is held, and the workloads that leave it for other places have not released it yet",
        ReasonOwner.ENGINE,
        True,
    )


class HeldPlaces(Feature):
    """Lifts the hold of the head's place."""

    reasons = MoveReason

    def turn(self, workload: Workload) -> Turn | None:
        """Returns that the place is free for the head, which waits for it if it does not fit."""
        if hold_key(HoldKind.PLACE, workload.key) not in self.ledger.holds:
            return None
        free = self.ledger.holds.lifted(HoldKind.PLACE, workload.key)
        return Turn(free, instead_of_room=(MoveReason.WAITING_FOR_MOVED, PLACE_HELD))
