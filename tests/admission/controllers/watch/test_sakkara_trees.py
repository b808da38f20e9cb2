"""Which tree is in force: the last good one, whatever comes after it, and what is said of the others."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from admission.controllers.watch.kinds import Kinds
from admission.controllers.watch.sakkara_trees import Trees
from admission.controllers.watch.view_feature import TreesChanged
from admission.world.objects import Objects
from admission.world.world import World
from api.kube.informers.store import Store
from api.kube.resources import CONFIG_MAPS, NODES, RESOURCE_FLAVORS
from api.names import HOSTNAME_LABEL, SAKKARA_QUEUE, SAKKARA_TOPOLOGY
from api.pod.pods import Meta, Node
from api.sakkara import ConfigMap, MapMeta, label_of_level

RACK = label_of_level("tree", "rack")
Tree = Mapping[str, list[str]]


def _nested(tree: Tree) -> dict[str, dict[str, dict[str, str]]]:
    return {rack: {node: {} for node in nodes} for rack, nodes in tree.items()}


class Known:
    """Copies of ConfigMaps and nodes, filled by hand."""

    def __init__(self, *nodes: str) -> None:
        self.maps: Store[ConfigMap] = Store("configmaps")
        self.nodes: Store[Node] = Store("nodes")
        view = Kinds.__new__(Kinds)
        vars(view).update(nodes=self.nodes)
        self.trees = Trees(view, {CONFIG_MAPS: self.maps})
        self.changes: list[TreesChanged] = []
        self.trees.on_trees(self.changes.append)
        self._version = 0
        for node in nodes:
            self.node(node)

    def node(self, name: str) -> None:
        self.nodes.upsert(Node(metadata=Meta(name=name)))

    def gone(self, name: str) -> None:
        self.nodes.delete_key(name)

    def tell(self, tree: Tree | str, key: str = "m", name: str = "tree", levels: str = '["rack", "node"]') -> None:
        text = tree if isinstance(tree, str) else json.dumps(_nested(tree))
        self._version += 1
        meta = MapMeta(name=key, namespace="default", uid=key, resource_version=str(self._version))
        self.maps.upsert(ConfigMap(meta, {"name": name, "level-names": levels, "tree": text}))

    def rack_of(self, node: str) -> str | None:
        return self.trees.labels_of(node).get(RACK)

    def levels(self, name: str = SAKKARA_QUEUE) -> list[str]:
        return list(self.trees.topologies[name].levels)

    def problem(self, key: str = "m") -> str | None:
        return self.trees.problem(f"default/{key}")


def test_a_tree_that_changes_moves_the_nodes_that_it_moves_and_no_others() -> None:
    known = Known("a", "b", "c")
    known.tell({"r0": ["a", "b"], "r1": ["c"]})
    known.changes.clear()
    known.tell({"r0": ["a"], "r1": ["b", "c"]})
    assert [known.rack_of(node) for node in "abc"] == ["r0", "r1", "r1"]
    assert known.changes == [TreesChanged(frozenset(), frozenset({"b"}))]
    assert known.problem() is None


def test_levels_that_change_are_those_of_the_topology() -> None:
    known = Known("a")
    known.tell({"r0": ["a"]})
    known.changes.clear()
    known.tell({"r0": ["a"]}, levels='["row", "node"]')
    assert known.trees.topologies["tree"].levels == (label_of_level("tree", "row"), HOSTNAME_LABEL)
    assert known.changes == [TreesChanged(frozenset({"tree", SAKKARA_QUEUE}), frozenset({"a"}))]


def test_the_last_good_tree_stays_when_the_next_cannot_be_read() -> None:
    known = Known("a")
    known.tell({"r0": ["a"]})
    known.tell("{")
    assert known.rack_of("a") == "r0"
    assert str(known.problem()).endswith("(char 1); the last good tree stays in force")
    known.tell({"r1": ["a"]})
    assert (known.rack_of("a"), known.problem()) == ("r1", None)


def test_a_tree_of_nodes_that_the_cluster_lacks_waits_until_they_come() -> None:
    known = Known("a")
    known.tell({"r0": ["a"]})
    known.tell({"r1": ["a", "b", "c", "d", "e"]})
    assert known.rack_of("a") == "r0"
    assert known.problem() == "data.tree: the cluster has no node b, c, d and 1 more; the last good tree stays in force"
    for node in "bcde":
        known.node(node)
    assert (known.rack_of("a"), known.rack_of("e"), known.problem()) == ("r1", "r1", None)


def test_a_tree_whose_node_leaves_stays_in_force_and_says_so() -> None:
    known = Known("a", "b")
    known.tell({"r0": ["a"], "r1": ["b"]})
    known.gone("b")
    assert known.rack_of("a") == "r0"
    assert known.problem() == "data.tree: the cluster has no node b; the tree holds for the nodes that there are"
    known.node("b")
    assert known.problem() is None


def test_at_the_beginning_the_tree_is_there_before_its_nodes() -> None:
    known = Known()
    known.tell({"r0": ["a"]})
    assert known.trees.topologies["tree"].levels == (RACK, HOSTNAME_LABEL)
    known.tell({"r1": ["a"]})
    assert known.rack_of("a") == "r1", "none of them was good, the later one holds"
    known.node("a")
    known.tell({"r2": ["a", "b"]})
    assert known.rack_of("a") == "r1"


def test_without_any_all_nodes_are_there_each_for_itself() -> None:
    known = Known("a")
    assert known.levels() == [HOSTNAME_LABEL]
    known.tell({"r0": ["a"]})
    assert known.levels() == [RACK, HOSTNAME_LABEL]
    known.maps.delete_key("default/m")
    assert known.levels() == [HOSTNAME_LABEL]
    assert known.trees.labels_of("a") == {}


def test_one_that_was_never_good_is_none_and_not_the_flat_one() -> None:
    known = Known("a")
    known.tell("[]")
    assert SAKKARA_QUEUE not in known.trees.topologies
    assert str(known.problem()).endswith("there is no tree to go by")


def test_of_two_trees_of_one_name_the_first_holds_and_the_other_is_reported() -> None:
    known = Known("a")
    known.tell({"r0": ["a"]}, key="m2")
    known.tell({"r1": ["a"]}, key="m1")
    assert known.rack_of("a") == "r1"
    assert known.problem("m1") is None
    assert known.problem("m2") == "data.name: tree: another ConfigMap has a tree of this name"


def test_trees_of_different_names_hold_side_by_side() -> None:
    known = Known("a")
    known.tell({"r0": ["a"]}, key="m1")
    known.tell({"x9": ["a"]}, key="m2", name="other")
    assert known.trees.labels_of("a") == {RACK: "r0", label_of_level("other", "rack"): "x9"}


NODES_OF = st.dictionaries(st.sampled_from("xy"), st.lists(st.sampled_from("abcd"), max_size=3), min_size=1, max_size=2)
STEPS = st.one_of(
    st.tuples(st.just("tell"), st.sampled_from(["m1", "m2"]), NODES_OF),
    st.tuples(st.just("bad"), st.sampled_from(["m1", "m2"]), st.none()),
    st.tuples(st.just("drop"), st.sampled_from(["m1", "m2"]), st.none()),
    st.tuples(st.sampled_from(["comes", "goes"]), st.sampled_from("abcd"), st.none()),
)


@given(st.lists(STEPS, max_size=12))
def test_a_listener_that_only_hears_of_changes_knows_the_labels_and_levels_that_hold(
    steps: list[tuple[str, str, Any]],
) -> None:
    known = Known("a", "b")
    heard: dict[str, dict[str, str]] = {node: known.trees.labels_of(node) for node in "abcd"}
    levels: dict[str, Any] = dict(known.trees.topologies)

    def hear(change: TreesChanged) -> None:
        heard.update({node: known.trees.labels_of(node) for node in change.nodes})
        for name in change.topologies:
            levels.pop(name, None)
            if name in known.trees.topologies:
                levels[name] = known.trees.topologies[name]

    known.trees.on_trees(hear)
    for what, which, tree in steps:
        match what:
            case "tell":
                known.tell(tree, key=which, name=f"tree-{which}" if len(tree) > 1 else "tree")
            case "bad":
                known.tell("[", key=which)
            case "drop":
                known.maps.delete_key(f"default/{which}")
            case "comes":
                known.node(which)
            case "goes":
                known.gone(which)
        assert heard == {node: known.trees.labels_of(node) for node in "abcd"}
        assert levels == known.trees.topologies


# ---- as the ledger sees it


def _take(objects: Objects, kind: Any, name: str, version: int, **parts: Any) -> None:
    meta = {"name": name, "uid": name, "resourceVersion": str(version), **parts.pop("metadata", {})}
    objects.add(kind, json.dumps({"metadata": meta, **parts}).encode())


def test_the_ledger_places_by_the_tree_that_is_in_force_now() -> None:
    world = World()
    objects = Objects(world.state)
    spec = {"nodeLabels": {"kubernetes.io/os": "linux"}, "topologyName": "tree"}
    _take(objects, RESOURCE_FLAVORS, "f", 1, spec=spec)
    for number, node in enumerate("abc"):
        labels = {HOSTNAME_LABEL: node, "kubernetes.io/os": "linux"}
        status = {"allocatable": {"cpu": "4", "pods": "10"}, "conditions": [{"type": "Ready", "status": "True"}]}
        _take(objects, NODES, node, 10 + number, metadata={"labels": labels}, status=status)

    def told(version: int, tree: dict[str, Any], level: str = "rack") -> dict[str, int]:
        labels = {"labels": {SAKKARA_TOPOLOGY: ""}, "namespace": "default"}
        data = {"name": "tree", "level-names": json.dumps([level, "node"]), "tree": json.dumps(tree)}
        _take(objects, CONFIG_MAPS, "m", version, metadata=labels, data=data)
        levels = world.ledger.capacity.trees["f"].levels
        return {"racks": len(levels[0].ids()), "hosts": len(levels[1].ids())}

    assert told(20, {"r0": {"a": {}, "b": {}}}) == {"racks": 1, "hosts": 2}, "c is in no rack"
    assert told(21, {"r0": {"a": {}}, "r1": {"b": {}}, "r2": {"c": {}}}) == {"racks": 3, "hosts": 3}
    assert told(22, {"r0": {"a": {}, "c": {}}, "r2": {"b": {}}}, "row") == {"racks": 2, "hosts": 3}
    assert world.ledger.audit() == []
