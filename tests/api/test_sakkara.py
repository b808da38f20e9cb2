"""Sakkara's ConfigMaps: what good ones come to, and what is said of each bad one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from api.names import HOSTNAME_LABEL, SAKKARA_GROUP, SAKKARA_TOPOLOGY
from api.sakkara import SakkaraGroup, label_of_level, read_group, read_topology
from api.text.manifests import read
from api.topology_request import PlacementConstraint

TREE: dict[str, dict[str, object]] = {"rack-0": {"node-0": {}, "node-1": {}}, "rack-1": {"node-2": {}}}
GOOD = {"name": "cluster-tree", "level-names": '["rack", "node"]', "tree": json.dumps(TREE)}
LEVELS = (
    "must be a JSON list of 1 to 15 different names, widest first, each of at most 63 letters, digits, '-', '_' and '.'"
)


# ---- groups


def test_a_group_is_read_with_its_constraints() -> None:
    constraints = '{"rack": {"type": "spread", "partitions": 2}, "node": {"min": 2, "hard": true}}'
    given = {"name": "group-a", "size": "8", "priority": "-5", "constraints": constraints, "status": "Bound"}
    rack = PlacementConstraint(level="rack", type="spread", partitions=2)
    node = PlacementConstraint(level="node", min=2, hard=True)
    assert read_group("its-map", given).group == SakkaraGroup("group-a", 8, -5, (rack, node))


@pytest.mark.parametrize("more", [{}, {"constraints": "{}"}, {"constraints": " "}], ids=["none", "empty", "blank"])
def test_a_group_that_says_nothing_else_is_called_like_its_map_and_packs(more: dict[str, str]) -> None:
    packed = (PlacementConstraint(level="node", type="pack"),)
    assert read_group("its-map", {"size": "1", **more}).group == SakkaraGroup("its-map", 1, 0, packed)


@pytest.mark.parametrize(
    ("value", "faults"),
    [
        pytest.param({}, ["data.size: '': must be a whole number from 1 to 2147483647"], id="no-size"),
        *(
            pytest.param(
                {"size": text}, [f"data.size: {text!r}: must be a whole number from 1 to 2147483647"], id=f"size-{text}"
            )
            for text in ("0", "-3", "2.5", "many", "2147483648", "9" * 5000)
        ),
        pytest.param(
            {"size": "2", "priority": "high"},
            ["data.priority: 'high': must be a whole number from -2147483648 to 2147483647"],
            id="priority",
        ),
        pytest.param(
            {"name": "Group A", "size": "2"},
            ["data.name: 'Group A': must be a DNS subdomain of at most 253 characters"],
            id="name",
        ),
        pytest.param(
            {"size": "2", "constraints": "[1]"},
            ["data.constraints: '[1]': must be a JSON object by level, not an array"],
            id="constraints-no-object",
        ),
        pytest.param(
            {"size": "2", "constraints": '{"rack": {"type": "stack"}}'},
            ["data.constraints[rack][type]: 'stack': must be one of pack, spread"],
            id="unknown-type",
        ),
        pytest.param(
            {"size": "2", "constraints": '{"rack": {"type": "spread", "partitions": 3}}'},
            ["data.constraints[rack][partitions]: 3: contradicts size 2: must not be greater"],
            id="more-partitions-than-pods",
        ),
        pytest.param(
            {"size": "8", "constraints": '{"node": {"min": 3, "max": 2}}'},
            ["data.constraints[node][min]: 3: contradicts max 2: must not be greater"],
            id="min-above-max",
        ),
        pytest.param(
            {"size": "8", "constraints": '{"node": {"min": 5, "max": 7, "factor": 4}}'},
            ["data.constraints[node][factor]: 4: contradicts min 5 and max 7: no count in that range is a multiple"],
            id="factor-without-a-multiple",
        ),
        pytest.param(
            {"size": "x", "priority": "y", "constraints": "{"},
            [
                "data.size: 'x': must be a whole number from 1 to 2147483647",
                "data.priority: 'y': must be a whole number from -2147483648 to 2147483647",
                "data.constraints: '{': must be a JSON object by level: "
                "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
            ],
            id="all-at-once",
        ),
    ],
)
def test_each_fault_of_a_group_is_named(value: dict[str, str], faults: list[str]) -> None:
    read = read_group("group-a", value)
    assert read.group is None
    assert [str(fault) for fault in read.faults] == faults


# ---- trees


def test_a_tree_gives_each_node_a_label_a_level_above_the_host() -> None:
    tree = read_topology("its-map", {**GOOD, "resource-names": '["cpu", "nvidia.com/gpu"]'}).topology
    assert tree is not None
    rack = label_of_level("cluster-tree", "rack")
    assert tree.topology.levels == (rack, HOSTNAME_LABEL)
    assert [tree.labels_of(node) for node in ("node-1", "node-2", "elsewhere")] == [
        {rack: "rack-0"},
        {rack: "rack-1"},
        {},
    ]
    assert tree.resources == ("cpu", "nvidia.com/gpu")


def test_nodes_of_another_name_are_a_level_of_their_own_above_the_hosts() -> None:
    given = {"name": "t", "level-names": '["rack", "server"]', "tree": '{"r": {"n1": {}, "n2": {}}}'}
    tree = read_topology("its-map", given).topology
    assert tree is not None
    rack, server = label_of_level("t", "rack"), label_of_level("t", "server")
    assert tree.topology.levels == (rack, server, HOSTNAME_LABEL)
    assert tree.labels_of("n2") == {rack: "r", server: "n2"}


def test_a_unit_may_be_empty_and_units_of_different_parents_have_one_name() -> None:
    given = {
        "level-names": '["row", "rack", "node"]',
        "tree": '{"a": {"r": {"n1": {}}}, "b": {"r": {"n2": {}}, "s": {}}}',
    }
    tree = read_topology("t", given).topology
    assert tree is not None
    assert tree.paths == {"n1": ("a", "r"), "n2": ("b", "r")}


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        pytest.param({"level-names": "rack,node"}, f"data.level-names: 'rack,node': {LEVELS}", id="levels-no-json"),
        pytest.param({"level-names": "[]"}, f"data.level-names: '[]': {LEVELS}", id="no-levels"),
        pytest.param({"level-names": '["a", "a"]'}, f'data.level-names: \'["a", "a"]\': {LEVELS}', id="twice"),
        pytest.param({"level-names": '["a/b"]'}, f"data.level-names: '[\"a/b\"]': {LEVELS}", id="slash"),
        pytest.param(
            {"name": "No Name"}, "data.name: 'No Name': must be a DNS subdomain of at most 200 characters", id="name"
        ),
        pytest.param(
            {"resource-names": '{"cpu": 1}'},
            "data.resource-names: '{\"cpu\": 1}': must be a JSON list of different names of resources",
            id="resources",
        ),
        pytest.param(
            {"tree": ""},
            "data.tree: '': must be a JSON object of units by name: Expecting value: line 1 column 1 (char 0)",
            id="no-tree",
        ),
        pytest.param(
            {"tree": '{"r": {}, "r": {}}'},
            'data.tree: \'{"r": {}, "r": {}}\': must be a JSON object of units by name: r appears twice',
            id="unit-twice",
        ),
        pytest.param({"tree": "{}"}, "data.tree: '{}': must name a node", id="no-nodes"),
        pytest.param(
            {"tree": '{"r": ["n"]}'},
            "data.tree[r]: ['n']: must be an object of units by name, empty for a node",
            id="list",
        ),
        pytest.param(
            {"tree": '{"r": {"n": {"gpu": {}}}}'}, "data.tree[r][n]: 'gpu': lies below the last level, node", id="deep"
        ),
        pytest.param(
            {"tree": '{"r": {"n": {}}, "s": {"n": {}}}'},
            "data.tree[s][n]: 'n': is a node of r already",
            id="node-twice",
        ),
        pytest.param({"tree": '{"": {"n": {}}}'}, "data.tree: '': must be the name of a rack", id="nameless"),
    ],
)
def test_each_fault_of_a_tree_is_named(value: dict[str, str], fault: str) -> None:
    read = read_topology("its-map", {**GOOD, **value})
    assert read.topology is None
    assert [str(found) for found in read.faults] == [fault]


def test_a_tree_of_absurd_depth_is_refused_not_followed() -> None:
    read = read_topology("t", {**GOOD, "tree": '{"a":' * 50_000 + "{}" + "}" * 50_000})
    assert read.topology is None


# ---- the samples


def _samples(label: str) -> list[dict[str, Any]]:
    folder = Path(__file__).resolve().parents[2] / "config" / "samples"
    found = [made for file in sorted(folder.glob("sakkara-*.yaml")) for made in read(file)]
    return [made for made in found if label in (made["metadata"].get("labels") or {})]


def test_the_samples_are_a_tree_and_a_group_that_go_together() -> None:
    (tree,), (group,) = _samples(SAKKARA_TOPOLOGY), _samples(SAKKARA_GROUP)
    shape = read_topology(tree["metadata"]["name"], tree["data"]).topology
    read = read_group(group["metadata"]["name"], group["data"]).group
    assert shape is not None
    assert read is not None
    assert {constraint.level for constraint in read.constraints} <= set(shape.levels)


def test_a_priority_above_what_is_allowed_names_the_way_that_can_be_guarded() -> None:
    (fault,) = read_group("g", {"size": "1", "priority": "8"}, highest=7).faults
    assert (fault.field, fault.given) == ("data.priority", "8")
    assert "at most 7, the setting sakkara.highestPriority" in fault.allowed
    assert read_group("g", {"size": "1", "priority": "7"}, highest=7).group is not None
