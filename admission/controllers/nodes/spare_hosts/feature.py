"""Spare hosts as a feature of the controller. The cycle holds them (engine/features/spare_hosts)."""

from __future__ import annotations

from collections.abc import Callable, Collection

from admission.controllers.nodes.spare_hosts.of_flavors import FlavorSparesReporter
from admission.controllers.nodes.spare_hosts.of_workloads import SpareHostsController
from admission.controllers.watch.feature import ControllerFeature, FeatureContext
from admission.engine.features.spare_hosts.feature import SpareKeeper


class SpareHosts(ControllerFeature):
    """Says after each cycle which spare hosts are held. Who loses a node before the first cycle has them held as well."""

    def __init__(self, context: FeatureContext) -> None:
        # nodes that failed meanwhile are replaced before the first cycle
        context.ledger.holds.keeper = SpareKeeper(context.ledger)
        self._workloads = SpareHostsController(context.writer, context.views, context.ledger)
        self._flavors = FlavorSparesReporter(context.views, context.ledger, context.recorder)
        self.runs = (("spare hosts", self._workloads.reconciler.run),)

    def decided(self, keys: Collection[str], seconds: float) -> None:
        """Compares what is held with what was held after the cycle before."""
        self._workloads.cycle_ended()
        self._flavors.cycle_ended()

    def on_usage(self, call: Callable[[str], None]) -> None:
        """Calls `call` with the ClusterQueue of a rule whose hosts change."""
        self._flavors.on_usage(call)
