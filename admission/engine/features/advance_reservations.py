"""Advance reservations in the cycle: a head that names one draws on the quota that it charges (cycle/held_capacity.py)."""

from __future__ import annotations

from contextlib import AbstractContextManager

from admission.engine.cycle.feature import Feature
from admission.engine.cycle.held_capacity import draws_on
from admission.engine.model import Workload


class AdvanceReservations(Feature):
    """Lifts the charge of the head's reservation."""

    def turn(self, workload: Workload) -> AbstractContextManager[object] | None:
        """Returns a context in which the reservation charges nothing."""
        if not workload.reservation or not self.ledger.reserved.nodes:
            return None
        name = draws_on(self.ledger, workload)
        return None if name is None else self.ledger.reserved.lifted({name})
