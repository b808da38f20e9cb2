"""Reports the spare hosts of ResourceFlavors: in a metric, and in events on the flavor.

An event says that hosts are missing, that all are held again, or that the rule cannot be read.

The cycle holds the hosts (engine/features/spare_hosts/of_flavors.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from admission.controllers.watch.cluster_view import Views
from admission.engine.convert import convert_spares
from admission.engine.features.spare_hosts.of_flavors import FlavorSpares, states
from admission.engine.ledger.ledger import Ledger
from admission.metrics import spare_hosts as metrics
from api.errors import InvalidObject
from api.kube.events import EventRecorder, ref_to
from api.kube.informers.store import Change, ChangeType
from api.kube.resources import RESOURCE_FLAVORS
from api.topology import ResourceFlavor

_STATES: Final = ("held", "lacking")


class FlavorSparesReporter:
    """Compares the held hosts after each cycle with those of the cycle before."""

    def __init__(self, views: Views, ledger: Ledger, recorder: EventRecorder) -> None:
        self._views, self._ledger, self._recorder = views, ledger, recorder
        self._usage_changed: list[Callable[[str], None]] = []
        self._seen: dict[str, FlavorSpares] = {}
        views.flavors.add_handler(self._flavor_changed)

    def on_usage(self, call: Callable[[str], None]) -> None:
        """Registers a callback for the ClusterQueue that spare hosts are charged to when they change."""
        self._usage_changed.append(call)

    def cycle_ended(self) -> None:
        """Sets the metric, and records an event for each flavor that has other missing hosts than before."""
        now = states(self._ledger)
        for name in self._seen.keys() - now.keys():
            for state in _STATES:
                metrics.OF_FLAVORS.remove(name, state)
        for name, spares in now.items():
            before = self._seen.get(name)
            if spares is not before:
                metrics.OF_FLAVORS.labels(name, "held").set(spares.count)
                metrics.OF_FLAVORS.labels(name, "lacking").set(spares.wanted - spares.count)
                self._report(name, spares, before)
                for call in self._usage_changed if spares.rule.queue else ():
                    call(spares.rule.queue)
        self._seen = dict(now)

    def _report(self, name: str, spares: FlavorSpares, before: FlavorSpares | None) -> None:
        flavor, lacking = self._views.flavors.objects.get(name), spares.wanted - spares.count
        if flavor is None or lacking == (before.wanted - before.count if before is not None else 0):
            return
        ref = ref_to(RESOURCE_FLAVORS, flavor)
        if not lacking:
            self._recorder.record(ref, "Normal", "SpareHostsHeld", f"All {spares.wanted} spare host(s) are held")
            return
        queue = f", or ClusterQueue {spares.rule.queue} has no quota for them" if spares.rule.queue else ""
        text = f"{lacking} of {spares.wanted} spare host(s) not held: other hosts are in use{queue}"
        self._recorder.record(ref, "Warning", "SpareHostsLacking", text)

    def _flavor_changed(self, change: Change[ResourceFlavor]) -> None:
        flavor = change.object
        if change.type is ChangeType.DELETED:
            return
        topology = self._views.topology(flavor.spec.topology_name or "")
        inline = flavor.spec.topology
        levels = inline.levels if inline is not None else topology.levels if topology is not None else None
        try:
            convert_spares.rule_of(flavor, levels)
        except InvalidObject as bad:
            self._recorder.record(ref_to(RESOURCE_FLAVORS, flavor), "Warning", "InvalidSpareHosts", str(bad))
