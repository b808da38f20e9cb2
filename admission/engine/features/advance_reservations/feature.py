"""Advance reservations in the cycle: a head that names one draws on the quota that it charges
(cycle/held_capacity.py)."""

from __future__ import annotations

from admission.engine.cycle.feature import Feature, Turn
from admission.engine.cycle.held_capacity import draws_on
from admission.engine.ledger.holds import HoldTerms
from admission.engine.model import Workload


class AdvanceReservations(Feature):
    """Lifts the charge of the head's reservation."""

    field = "reservation"
    holds = HoldTerms(
        "advance reservation",
        "nodes with given labels; from its start also their quota, if it names a ClusterQueue",
        "an administrator, with an AdvanceReservation",
        "its end comes, or it is deleted",
        "workloads of its namespaces that name it; others until its start, if they end by then",
    )

    def turn(self, workload: Workload) -> Turn | None:
        """Returns that the reservation charges nothing."""
        if not self.ledger.reserved.nodes:
            return None
        name = draws_on(self.ledger, workload)
        return None if name is None else Turn(self.ledger.reserved.lifted({name}))
