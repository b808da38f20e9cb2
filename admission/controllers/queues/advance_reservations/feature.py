"""Advance reservations as a feature of the controller: each gets a status, begins and ends in time."""

from __future__ import annotations

from collections.abc import Callable

from admission.controllers.queues.advance_reservations.reservation_controller import AdvanceReservationController
from admission.controllers.watch.advance_reservations.view import AdvanceReservationView
from admission.controllers.watch.feature import ControllerFeature, FeatureContext
from admission.controllers.watch.feed import Feed


class AdvanceReservations(ControllerFeature):
    """Runs if the view has the reservations."""

    def __init__(self, context: FeatureContext) -> None:
        self._context = context
        self._controller: AdvanceReservationController | None = None

    def connect(self, feed: Feed) -> None:
        """Builds the controller."""
        view = self._context.views.features.of(AdvanceReservationView)
        if view is not None:
            writer, ledger = self._context.writer, self._context.ledger
            self._controller = AdvanceReservationController(writer, view.reservations, ledger, feed)
            self.runs = (("advance reservations", self._controller.run),)

    def on_usage(self, call: Callable[[str], None]) -> None:
        """Calls `call` with a ClusterQueue for whose reservations the charge may have changed."""
        if self._controller is not None:
            self._controller.usage_changed = call
