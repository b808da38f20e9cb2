"""Reports in the Workload when changed node labels violate a running workload's required topology.

The pods of a gang that requires one rack keep running when a label moves a node to another rack; nothing is evicted. The
condition TopologyKept turns False and names the domains, and one event is recorded. The next start places the workload by the
labels of that time. Changes of topology labels trigger it, also of a node that comes back after it was deleted or not ready,
and so does a new leadership, which checks every running workload once. Each workload is a key of its own, so no check
occupies the loop for long.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

from cachetools import LRUCache

from admission.controllers.state import conditions
from admission.controllers.state.actions import PlannedEvent
from admission.controllers.state.condition_table import Writer
from admission.controllers.state.conditions import is_running
from admission.controllers.watch.cluster_view import Views, hostname
from admission.controllers.write.report_writer import ReportWriter
from admission.engine.cycle.placed_requests import placed_requests
from admission.engine.ledger.ledger import Ledger
from admission.engine.topology.questions.level_check import BrokenLevel
from api.kube.client import Kube
from api.kube.events import EventRecorder
from api.kube.informers.store import Change, ChangeType
from api.kube.reconcile import Reconciler
from api.meta import find_condition
from api.names import LEVELS_KEPT
from api.pod.pods import Node
from api.workloads import Workload

# The key for all nodes relabelled since it was last reconciled; no workload has this key.
_NODES: Final = ""
# Nodes are often relabelled in groups and label by label, so wait until the labels have settled.
_SETTLE: Final = 1.0
# The number of nodes that are deleted or not ready whose labels are remembered: they may come back.
_MOST_AWAY: Final = 1024
# The number of domains that a message names.
_NAMED: Final = 8


class RelabelledController:
    """Maintains the condition TopologyKept while it runs."""

    def __init__(
        self,
        kube: Kube,
        views: Views,
        ledger: Ledger,
        recorder: EventRecorder,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._views, self._ledger, self._now = views, ledger, now
        self._reports = ReportWriter(kube, Writer.RELABELLED_NODES, recorder, views.workloads.observe)
        self.reconciler = Reconciler("required topology", self._reconcile, workers=1)
        self._relabelled: set[str] = set()
        self._away: LRUCache[str, Node] = LRUCache(_MOST_AWAY)
        views.nodes.add_handler(self._node_changed)
        views.workloads.add_handler(self._workload_changed)

    # ---- watch handlers

    def _node_changed(self, change: Change[Node]) -> None:
        new, old = change.object, change.old
        # No tree has the host of a deleted node or of one that is not ready, so nothing can be said of its pods: its labels are
        # compared with its last ones once the node is back.
        if change.type is ChangeType.DELETED or not _usable(new):
            last = new if change.type is ChangeType.DELETED else old
            if last is not None and _usable(last):
                self._away[new.key] = last
            return
        old = self._away.pop(new.key, old)
        if old is None or old.metadata.labels == new.metadata.labels:
            return
        if self._levels(old) != self._levels(new):
            self._relabelled |= {hostname(old), hostname(new)}
            self.reconciler.add_after(_NODES, _SETTLE)

    def _levels(self, node: Node) -> dict[str, str | None]:
        """Returns the node's values of every topology level."""
        keys = {key for flavor in self._ledger.flavors.values() for key in flavor.levels or ()}
        return {key: node.metadata.labels.get(key) for key in keys}

    def _workload_changed(self, change: Change[Workload]) -> None:
        """Queues running workloads of the first list: a new leader does not know earlier changes."""
        if change.old is None and change.type is not ChangeType.DELETED and is_running(change.object.status):
            self.reconciler.add_after(change.key, _SETTLE)

    def _add_holders(self) -> None:
        """Queues the workloads that are assigned to a relabelled node."""
        hosts, self._relabelled = self._relabelled, set()
        for key, admission in self._ledger.admissions.items():
            placed = (pod_set.assignment for pod_set in admission.pod_sets if pod_set.assignment is not None)
            if any(domain.values[-1] in hosts for assignment in placed for domain in assignment.domains):
                self.reconciler.add(key)

    # ---- one workload

    async def _reconcile(self, key: str) -> None:
        if key == _NODES:
            self._add_holders()
            return
        workload = self._views.workloads.objects.get(key)
        known, admission = self._ledger.workload(key), self._ledger.admission(key)
        if workload is None or known is None or admission is None or not is_running(workload.status):
            return
        broken = self._ledger.placement.broken_levels(list(placed_requests(self._ledger, known, admission)))
        text = _text(broken)
        before = find_condition(workload.status.conditions, LEVELS_KEPT)
        status = conditions.levels_kept(workload.status, text, self._now(), workload.metadata.generation)
        begins = text and (before is None or before.status == "True")
        events = (PlannedEvent("NodesRelabelled", text, "Warning"),) if begins else ()
        await self._reports.write(workload, status, *events)


def _usable(node: Node) -> bool:
    return node.ready and not node.spec.unschedulable


def _text(broken: Iterable[BrokenLevel]) -> str:
    """Describes the violated levels; empty if there are none."""
    text = "; ".join(map(_one, broken))
    return f"{text}. The pods run on; the next start places them by the labels of that time" if text else ""


def _one(broken: BrokenLevel) -> str:
    domains = [f"{'/'.join(path)} ({count} pods)" for path, count in broken.domains[:_NAMED]]
    more = [f"{len(broken.domains) - _NAMED} more"] if len(broken.domains) > _NAMED else []
    unit = "all pods" if broken.slice_size == 1 else f"slices of {broken.slice_size} pods"
    pod_sets = ", ".join(broken.pod_sets)
    return f"{unit} of {pod_sets} require one {broken.level}, but nodes were relabelled: {', '.join(domains + more)}"
