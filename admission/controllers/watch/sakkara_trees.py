"""The trees of topology ConfigMaps: which ones are in force, and the labels and levels they define. No IO.

A ConfigMap may change at any time. Its present content is in force if it is readable and all of its nodes exist; otherwise the
last tree that met both conditions stays in force. Before any such tree, a readable one is in force for the nodes that exist,
as at startup, while nodes are still being listed.

Of two trees with the same name, the ConfigMap with the smaller key wins. The name SAKKARA_QUEUE, unless a tree has it, is the
tree of groups without a queue: the first tree, or, without any ConfigMap, all nodes with hostname as only level. A Topology
object of the same name takes precedence (controllers/watch/cluster_view.py). The feed adds the level labels to nodes and the
levels to flavors; `reporter` reports problems.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from admission.controllers.watch.kinds import Kinds
from admission.controllers.watch.local_copies import Copy
from admission.controllers.watch.view_feature import TreesChanged, ViewFeature
from admission.controllers.watch.watched import Watched, item
from admission.engine.listed import listed
from api.kube.informers.store import Change, ChangeType
from api.kube.resources import CONFIG_MAPS, Resource
from api.meta import ObjectMeta
from api.names import HOSTNAME_LABEL, SAKKARA_QUEUE, SAKKARA_TOPOLOGY
from api.sakkara import TREE, ConfigMap, SakkaraTopology, read_topology
from api.topology import Topology, TopologyLevel, TopologySpec

_DELETED = ChangeType.DELETED
_NAMED: Final = 3
"""The number of unknown nodes that a message names."""

FLAT: Final = Topology(
    metadata=ObjectMeta(name=SAKKARA_QUEUE), spec=TopologySpec(levels=(TopologyLevel(node_label=HOSTNAME_LABEL),))
)


@dataclass
class _Held:
    """One ConfigMap."""

    object: ConfigMap
    given: SakkaraTopology | None = None
    """Its present tree, if readable."""
    faults: tuple[str, ...] = ()
    missing: set[str] = field(default_factory=set)
    in_force: SakkaraTopology | None = None
    sound: bool = False
    """Whether the tree in force ever had all its nodes."""

    def settle(self) -> None:
        """Puts the present tree into force if it qualifies."""
        if self.given is not None and (not self.missing or not self.sound):
            self.in_force, self.sound = self.given, not self.missing


class Trees(ViewFeature):
    """The trees of ConfigMaps; of nodes only names matter."""

    topology_maps = Watched(
        CONFIG_MAPS,
        item(ConfigMap),
        of_topologies=True,
        label_selector=SAKKARA_TOPOLOGY,
        without="Sakkara's trees and groups",
    )

    def __init__(self, view: Kinds, copies: Mapping[Resource, Copy[Any]]) -> None:
        super().__init__(view, copies)
        self._nodes = view.nodes
        self._held: dict[str, _Held] = {}
        self._by_name: dict[str, SakkaraTopology] = {}
        self._handlers: list[Callable[[TreesChanged], None]] = []
        self._listeners: list[Callable[[str], None]] = []
        self.topologies = {SAKKARA_QUEUE: FLAT}
        """The topologies in force, by the name that flavors use."""
        self.topology_maps.add_handler(self._map_changed)
        self._nodes.add_handler(self._node_changed)

    def on_trees(self, fn: Callable[[TreesChanged], None]) -> None:
        """Calls `fn` with each later change; not for the present state."""
        self._handlers.append(fn)

    def add_listener(self, fn: Callable[[str], None]) -> None:
        """Calls `fn` with the key of each ConfigMap whose `problem` may have changed."""
        self._listeners.append(fn)
        for key in self._held:
            fn(key)

    def labels_of(self, node: str) -> dict[str, str]:
        """Returns the node's level labels in all trees together."""
        labels: dict[str, str] = {}
        for tree in self._by_name.values():
            labels |= tree.labels_of(node)
        return labels

    def object(self, key: str) -> ConfigMap | None:
        """Returns the ConfigMap as last seen, or None."""
        held = self._held.get(key)
        return held.object if held else None

    def problem(self, key: str) -> str | None:
        """Describes what is wrong with the ConfigMap and which tree holds instead; None if nothing is wrong."""
        held = self._held.get(key)
        if held is None:
            return None
        faults = list(held.faults)
        if held.given is not None and held.missing:
            faults.append(
                f"data.{TREE}: the cluster has no {held.given.levels[-1]} {listed(sorted(held.missing), _NAMED)}"
            )
        if held.in_force is not None and self._by_name.get(held.in_force.name) is not held.in_force:
            return "; ".join([*faults, f"data.name: {held.in_force.name}: another ConfigMap has a tree of this name"])
        if not faults:
            return None
        if held.in_force is None:
            return f"{'; '.join(faults)}; there is no tree to go by"
        if held.in_force is held.given:
            return f"{'; '.join(faults)}; the tree holds for the nodes that there are"
        return f"{'; '.join(faults)}; the last good tree stays in force"

    # ---- watch handlers

    def _map_changed(self, change: Change[ConfigMap]) -> None:
        if change.type is _DELETED:
            self._held.pop(change.key, None)
        else:
            held = self._held.setdefault(change.key, _Held(change.object))
            read = read_topology(change.object.metadata.name, change.object.data)
            held.object, held.given, held.faults = change.object, read.topology, tuple(map(str, read.faults))
            held.missing = set(read.topology.paths).difference(self._nodes.objects) if read.topology else set()
            held.settle()
        self._recompute()
        for key in (change.key, *self._held):
            self._add_node(key)

    def _node_changed(self, change: Change[Any]) -> None:
        gone = change.type is _DELETED
        if change.old is not None and not gone:
            return
        settled = False
        for key, held in self._held.items():
            if held.given is None or change.key not in held.given.paths:
                continue
            if gone:
                held.missing.add(change.key)
            else:
                held.missing.discard(change.key)
            if not held.missing and not (held.sound and held.in_force is held.given):
                held.settle()
                settled = True
            self._add_node(key)
        if settled:
            self._recompute()

    def _add_node(self, key: str) -> None:
        for fn in self._listeners:
            fn(key)

    def _recompute(self) -> None:
        """Recomputes the topologies in force and notifies handlers of the difference."""
        before, was = self._by_name, self.topologies
        self._by_name = {}
        for key in sorted(self._held):
            tree = self._held[key].in_force
            if tree is not None:
                self._by_name.setdefault(tree.name, tree)
        topologies = {name: tree.topology for name, tree in self._by_name.items()}
        if (default := self._default_topology()) is not None:
            topologies.setdefault(SAKKARA_QUEUE, default)
        self.topologies = topologies
        names = frozenset(name for name in {*was, *self.topologies} if was.get(name) != self.topologies.get(name))
        nodes = frozenset(_changed_nodes(before, self._by_name))
        if names or nodes:
            for fn in self._handlers:
                fn(TreesChanged(names, nodes))

    def _default_topology(self) -> Topology | None:
        if not self._held:
            return FLAT
        return next((tree.topology for tree in self._by_name.values()), None)


def _changed_nodes(before: Mapping[str, SakkaraTopology], now: Mapping[str, SakkaraTopology]) -> set[str]:
    """Returns the nodes whose position or tree changed."""
    moved: set[str] = set()
    for name in {*before, *now}:
        old, new = before.get(name), now.get(name)
        if old == new:
            continue
        if old is None or new is None or old.levels != new.levels:
            moved.update(*(tree.paths for tree in (old, new) if tree is not None))
        else:
            moved.update(node for node in {*old.paths, *new.paths} if old.paths.get(node) != new.paths.get(node))
    return moved
