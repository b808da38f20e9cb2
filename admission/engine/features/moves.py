"""The place that is held for a head while others leave it (moves/): the head may use it, and evicts nobody meanwhile."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Final

from admission.engine.cycle.feature import Feature
from admission.engine.ledger.holds import HoldKind, hold_key
from admission.engine.model import Workload
from admission.engine.reasons import Reason

PLACE_HELD: Final = "the workloads that leave its place for others have not left yet; the place is held for it"


class HeldPlaces(Feature):
    """Lifts the hold of the head's place."""

    def _is_held(self, workload: Workload) -> bool:
        return hold_key(HoldKind.PLACE, workload.key) in self.ledger.holds

    def turn(self, workload: Workload) -> AbstractContextManager[object] | None:
        """Returns a context in which the place is free."""
        return self.ledger.holds.lifted(HoldKind.PLACE, workload.key) if self._is_held(workload) else None

    def instead_of_room(self, workload: Workload) -> tuple[Reason, str] | None:
        """Returns that the place is held."""
        return (Reason.WAITING_FOR_MOVED, PLACE_HELD) if self._is_held(workload) else None
