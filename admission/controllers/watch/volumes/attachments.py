"""Counts how many more volumes of a CSI driver a node can attach: kube-scheduler's filter NodeVolumeLimits. No IO.

A driver is counted once pods of a Workload use a claim of it, and only if a CSINode limits its volumes; a node without a limit
accepts any number. Each pod counts for each of its claims. A node attaches a volume once, however many of its pods use it; so
pods that share a claim count as more than they need, and a node may be refused, but no volume is promised twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from admission.controllers.watch.in_steps import InSteps
from admission.controllers.watch.local_copies import Copy
from admission.controllers.watch.node_amounts import NOTHING, AmountsChanged
from admission.controllers.watch.projection import ProjectedPod
from admission.engine.model import LARGEST
from api.kube.informers.store import Change
from api.pod.pods import Node
from api.pod.volumes import CsiNode

PREFIX: Final = "attachable-volumes-csi-"
"""Prefix of the amounts' names, as formerly in a node's allocatable."""
MOST_DRIVERS: Final = 64
"""The maximum number of counted drivers with a limit; a cluster has a few."""


class Attachments:
    """Counts attachable volumes; `driver_of` returns the driver of a claim by key, or an empty string if it does not count."""

    def __init__(
        self,
        csi_nodes: Copy[CsiNode],
        nodes: Copy[Node],
        pods_with_claims: Callable[[], Iterable[ProjectedPod]],
        driver_of: Callable[[str], str],
    ) -> None:
        self._csi_nodes, self._nodes = csi_nodes, nodes
        self._pods_with_claims, self._driver_of = pods_with_claims, driver_of
        self._drivers: dict[str, None] = {}
        self._limited: set[str] = set()
        self._steps = InSteps()
        self._handlers: list[Callable[[AmountsChanged], None]] = []
        csi_nodes.add_handler(self._csi_node_changed)

    def add_handler(self, fn: Callable[[AmountsChanged], None]) -> None:
        """Calls `fn` after each relevant change."""
        self._handlers.append(fn)

    def counts(self, driver: str) -> bool:
        """Reports whether the driver's volumes are counted; starts to count them if a node has a limit for the driver."""
        if driver in self._drivers:
            return True
        if driver in self._limited and len(self._drivers) >= MOST_DRIVERS:
            self._limited = {name for each in self._csi_nodes.objects.values() for name in each.limits}
            self._drivers = {each: None for each in self._drivers if each in self._limited}
        if driver not in self._limited or len(self._drivers) >= MOST_DRIVERS:
            return False
        self._drivers[driver] = None
        self._steps.start(self._retelling())
        return True

    def _retelling(self) -> Iterator[None]:
        for pod in list(self._pods_with_claims()):
            self._tell(AmountsChanged(pods=[pod]))
            yield
        for node in list(self._nodes.objects):
            self._tell(AmountsChanged(nodes=[node]))
            yield

    def offered(self, node: str) -> Mapping[str, int]:
        """Returns the number of volumes that the node can attach, for each counted driver."""
        if not self._drivers:
            return NOTHING
        csi_node = self._csi_nodes.objects.get(node)
        limits = csi_node.limits if csi_node is not None else NOTHING
        return {f"{PREFIX}{driver}": limits.get(driver, LARGEST) for driver in self._drivers}

    def taken(self, pod: ProjectedPod) -> Mapping[str, int]:
        """Returns the number of volumes that a bound pod uses, for each counted driver."""
        if not self._drivers or not pod.claims:
            return NOTHING
        attached = dict[str, int]()
        for key in pod.claims:
            if (driver := self._driver_of(key)) in self._drivers:
                attached[f"{PREFIX}{driver}"] = attached.get(f"{PREFIX}{driver}", 0) + 1
        return attached

    def claim_changed(self, pods: Iterable[ProjectedPod]) -> None:
        """Reports pods whose claim has another volume now."""
        if self._drivers and (listed := list(pods)):
            self._tell(AmountsChanged(pods=listed))

    def _csi_node_changed(self, change: Change[CsiNode]) -> None:
        was = change.old.limits if change.old is not None else NOTHING
        now = change.object.limits
        self._limited |= now.keys()
        if self._drivers and was != now:
            self._tell(AmountsChanged(nodes=[change.key]))

    def _tell(self, changed: AmountsChanged) -> None:
        for fn in self._handlers:
            fn(changed)
