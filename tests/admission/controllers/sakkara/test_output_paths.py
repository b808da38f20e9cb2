"""Where a member is on the tree that the engine knows: by its node, else by where it was sent; and what is read of pods."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from admission.controllers.sakkara.output_members import read_member
from admission.controllers.sakkara.output_paths import TreePaths
from admission.controllers.sakkara.output_times import SolverTimes
from admission.controllers.watch.cluster_view import BY_HOSTNAME, hostname
from admission.engine import model
from admission.engine.ledger.ledger import Ledger
from api.kube.informers.store import Store
from api.names import ADMISSION_GATE, HOSTNAME_LABEL, SAKKARA_GROUP_ANNOTATION, TOPOLOGY_GATE
from api.pod.pods import Meta, Node
from api.workloads import Workload

BLOCK, RACK = "example.com/block", "example.com/rack"
TREE = "t.sakkara.topology/server"
WIDE = (BLOCK, RACK)
HOSTS = (*WIDE, HOSTNAME_LABEL)


@pytest.fixture
def paths() -> TreePaths:
    """Node n0, of hostname host-0, in b0/r0; n1 in the same rack, usable by nobody; on the tree n0 is a server of its own."""
    ledger, nodes = Ledger(), Store[Node]("nodes")
    nodes.add_index(BY_HOSTNAME, lambda node: [hostname(node)])
    for number, usable in enumerate((True, False)):
        labels = {BLOCK: "b0", RACK: "r0", HOSTNAME_LABEL: f"host-{number}"}
        nodes.upsert(Node(metadata=Meta(name=f"n{number}", labels=labels)))
        ledger.apply(model.Node(f"n{number}", {**labels, TREE: f"n{number}"}, {}, usable=usable))
    for name, levels in (("flat", None), ("hosts", HOSTS), ("wide", WIDE)):
        ledger.apply(model.Flavor(name, levels=levels))
    return TreePaths(ledger, nodes)


def pod(**spec: Any) -> Any:
    wire = {"metadata": {"name": "p", "namespace": "ns", "labels": {"sakkara.group.name": "g"}}, "spec": spec}
    return read_member(json.dumps(wire).encode())


@pytest.mark.parametrize(
    ("spec", "levels", "path"),
    [
        pytest.param({"nodeName": "n0"}, HOSTS, ("b0", "r0", "n0"), id="bound"),
        pytest.param({"nodeName": "n0"}, WIDE, ("b0", "r0", "n0"), id="bound, hosts are no level"),
        pytest.param({"nodeName": "n0"}, (HOSTNAME_LABEL,), ("n0",), id="bound, a flat tree"),
        pytest.param({"nodeName": "n0"}, (), ("n0",), id="bound, no tree"),
        pytest.param({"nodeName": "n0"}, (RACK, TREE, HOSTNAME_LABEL), ("r0", "n0"), id="a level of single hosts"),
        pytest.param({"nodeName": "n1"}, HOSTS, ("b0", "r0", "n1"), id="bound to a node that is not ready now"),
        pytest.param({"nodeName": "x"}, HOSTS, (), id="bound to a node that nobody knows"),
        pytest.param({"nodeName": "x"}, (HOSTNAME_LABEL,), ("x",), id="and on a flat tree"),
        pytest.param({"nodeSelector": {HOSTNAME_LABEL: "host-0"}}, HOSTS, ("b0", "r0", "n0"), id="sent to a host"),
        pytest.param({"nodeSelector": {HOSTNAME_LABEL: "n0"}}, HOSTS, ("b0", "r0", "n0"), id="sent to a node"),
        pytest.param({"nodeSelector": {BLOCK: "b0", RACK: "r0"}}, WIDE, ("b0", "r0", ""), id="sent to a rack"),
        pytest.param({"nodeSelector": {RACK: "r0"}}, WIDE, (), id="sent to part of a path"),
        pytest.param({"nodeSelector": {"pool": "a"}}, WIDE, (), id="sent nowhere"),
        pytest.param(
            {"nodeSelector": {HOSTNAME_LABEL: "host-0"}, "schedulingGates": [{"name": TOPOLOGY_GATE}]},
            HOSTS,
            ("b0", "r0", "n0"),
            id="sent to its node, and waits for its rank",
        ),
        pytest.param(
            {"nodeSelector": {"pool": "a"}, "schedulingGates": [{"name": TOPOLOGY_GATE}]},
            HOSTS,
            (),
            id="gated",
        ),
        pytest.param(
            {"nodeSelector": {HOSTNAME_LABEL: "host-0"}, "schedulingGates": [{"name": ADMISSION_GATE}]},
            HOSTS,
            (),
            id="not admitted",
        ),
        pytest.param(
            {"nodeSelector": {HOSTNAME_LABEL: "host-0"}, "schedulingGates": [{"name": "somebody/else"}]},
            HOSTS,
            ("b0", "r0", "n0"),
            id="let through by us, held by somebody else",
        ),
    ],
)
def test_path(paths: TreePaths, spec: dict[str, Any], levels: tuple[str, ...], path: tuple[str, ...]) -> None:
    assert paths.of(pod(**spec), levels) == path


@pytest.mark.parametrize(
    ("flavors", "levels"),
    [
        ({"cpu": "hosts"}, HOSTS),
        ({"cpu": "flat"}, ()),
        ({"cpu": "flat", "gpu": "wide"}, WIDE),
        ({"cpu": "gone"}, ()),
        ({}, ()),
    ],
)
def test_the_levels_are_those_of_the_flavor_that_the_group_got(
    paths: TreePaths, flavors: dict[str, str], levels: tuple[str, ...]
) -> None:
    given = {"name": "main", "flavors": flavors, "count": 1}
    status = {"admission": {"clusterQueue": "q", "podSetAssignments": [given]}}
    assert paths.levels(Workload.from_wire({"metadata": {"name": "g"}, "status": status})) == levels
    assert paths.levels(Workload.from_wire({"metadata": {"name": "g"}})) == paths.levels(None) == ()


def test_what_is_read_of_a_pod() -> None:
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    labels = {"sakkara.group.name": "g", "sakkara.member.rank": "3", "app": "x"}
    meta = {"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "7", "labels": labels}
    wire = {"metadata": meta, "spec": {"nodeName": "n"}, "status": {"phase": "Running", "conditions": [scheduled]}}
    found = read_member(json.dumps(wire).encode())
    assert (found.name, found.group_key, found.node, found.given) == ("p", "ns/g", "n", {"sakkara.member.rank": "3"})
    assert found.scheduled == 1_767_225_600.0
    assert (found.lives, found.over, found.failed) == (True, False, False)


@pytest.mark.parametrize(
    ("phase", "deleted", "lives"),
    [
        ("Running", False, True),
        ("Running", True, False),
        ("Failed", False, False),
        ("Succeeded", False, True),
        ("Succeeded", True, True),
    ],
)
def test_a_group_that_lacks_pods(phase: str, deleted: bool, lives: bool) -> None:
    assert replace(pod(), phase=phase, deleted=deleted).lives is lives


def test_solver_times_are_of_groups_alone_and_are_written_once() -> None:
    group = Workload.from_wire({"metadata": {"name": "g", "annotations": {SAKKARA_GROUP_ANNOTATION: "g"}}})
    other = Workload.from_wire({"metadata": {"name": "o"}})
    times = SolverTimes({"ns/g": group, "ns/o": other}.get)
    times.spent(["ns/g", "ns/o", "ns/gone", "ns/g"], 0.25)
    times.spent(["ns/g"], 0.5)
    assert (times.known("ns/g"), times.known("ns/o"), times.known("ns/gone")) == (750.0, None, None)
    told = times.known("ns/g")
    times.spent(["ns/g"], 0.125)
    times.written("ns/g", told)
    assert times.known("ns/g") == 125.0
    times.written("ns/g", 125.0)
    assert times.known("ns/g") is None
