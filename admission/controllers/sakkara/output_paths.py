"""Finds the tree path of a member pod from its node, or else from its node selector. Reads the ledger.

The levels are those of the flavor that the Workload was assigned, as the engine knows them, so trees from ConfigMaps and from
node labels work alike. A level of single hosts is the node itself and is not listed twice. Without levels the tree is flat.
"""

from __future__ import annotations

from itertools import takewhile

from admission.controllers.sakkara.output_members import MemberPod
from admission.controllers.sakkara.output_ranks import UNKNOWN, Path
from admission.controllers.watch.cluster_view import BY_HOSTNAME
from admission.controllers.watch.local_copies import Copy
from admission.engine.ledger.ledger import Ledger
from api.names import HOSTNAME_LABEL
from api.pod.pods import Node
from api.workloads import Workload


class TreePaths:
    """The paths of pods; `nodes` must be indexed by hostname."""

    def __init__(self, ledger: Ledger, nodes: Copy[Node]) -> None:
        self._ledger, self._nodes = ledger, nodes

    def levels(self, workload: Workload | None) -> tuple[str, ...]:
        """Returns the label keys of the levels, widest first; of several flavors, those of the deepest."""
        admission = workload.status.admission if workload is not None else None
        names = {name for psa in admission.pod_set_assignments for name in psa.flavors.values()} if admission else ()
        known = (self._ledger.flavors.get(name) for name in sorted(names))
        return max((flavor.levels or () for flavor in known if flavor is not None), key=len, default=())

    def of(self, pod: MemberPod, levels: tuple[str, ...]) -> Path:
        """Returns the pod's path, or an empty path while the pod may not start or its node is unknown."""
        if pod.node:
            return self._to_node(pod.node, levels)
        if pod.gated:
            return ()
        if host := pod.selector.get(HOSTNAME_LABEL):
            return self._to_node(self._node_of(host), levels)
        known = tuple(pod.selector[level] for level in takewhile(pod.selector.__contains__, levels))
        return (*known, UNKNOWN) if known else ()

    def _node_of(self, host: str) -> str:
        """Returns the name of the node with that hostname."""
        if host in self._nodes.objects:
            return host
        nodes = self._nodes.by_index(BY_HOSTNAME, host)
        return nodes[0].metadata.name if nodes else host

    def _to_node(self, node: str, levels: tuple[str, ...]) -> Path:
        wide = tuple(level for level in levels if level != HOSTNAME_LABEL)
        above = self._ledger.capacity.domain_of(node, wide) if wide else ()
        if above is None:
            return ()
        return above if above and above[-1] == node else (*above, node)
