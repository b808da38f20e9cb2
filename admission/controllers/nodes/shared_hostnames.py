"""Tells the operator, by events on the nodes, that several nodes have one hostname label.

Assignments name hosts by this label, and pods are sent to them by it. Nodes that share one are one host of the topology with
the capacity of all, and a pod that fits none of them may be sent there.
"""

from __future__ import annotations

from typing import Final

from admission.controllers.watch.cluster_view import BY_HOSTNAME, Views, hostname
from api.kube.events import EventRecorder, ref_to
from api.kube.informers.store import Change, ChangeType
from api.kube.reconcile import Reconciler
from api.kube.resources import NODES
from api.names import HOSTNAME_LABEL
from api.pod.pods import Node

_SETTLE: Final = 1.0
"""Seconds after a change: nodes are often labelled one after the other."""
_NAMED: Final = 8
"""The number of nodes that a message names and that get an event."""


class SharedHostnamesController:
    """Records the events while it runs: for each hostname that a node gets, and once for all with a new leader."""

    def __init__(self, views: Views, recorder: EventRecorder) -> None:
        self._views, self._recorder = views, recorder
        self.reconciler = Reconciler("hostnames", self._reconcile, workers=1)
        views.nodes.add_handler(self._node_changed)

    def _node_changed(self, change: Change[Node]) -> None:
        name = hostname(change.object)
        if change.type is ChangeType.DELETED or not name or (change.old is not None and hostname(change.old) == name):
            return
        if self._views.nodes.count(BY_HOSTNAME, name) > 1:
            self.reconciler.add_after(name, _SETTLE)

    async def _reconcile(self, name: str) -> None:
        nodes = sorted(self._views.nodes.by_index(BY_HOSTNAME, name), key=lambda node: node.metadata.name)
        if len(nodes) < 2:
            return
        named = [node.metadata.name for node in nodes[:_NAMED]]
        more = f" and {len(nodes) - _NAMED} more" if len(nodes) > _NAMED else ""
        text = (
            f"nodes {', '.join(named)}{more} have one label {HOSTNAME_LABEL}: {name}, so a topology takes them for one host; "
            "give each the label of its own name"
        )
        for node in nodes[:_NAMED]:
            self._recorder.record(ref_to(NODES, node), "Warning", "HostnameShared", text)
