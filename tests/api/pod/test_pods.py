"""The fields of pods and nodes that are read."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from api import names
from api.pod.pods import Node, Pod


def pod(**parts: Any) -> Pod:
    base = {"metadata": {"name": "p", "namespace": "a"}}
    return msgspec.convert({**base, **parts}, Pod)


@pytest.mark.parametrize(
    ("phase", "terminated"),
    [("Pending", False), ("Running", False), ("Unknown", False), ("", False), ("Failed", True), ("Succeeded", True)],
)
def test_terminated(phase: str, terminated: bool) -> None:
    assert pod(status={"phase": phase}).terminated == terminated


def test_a_terminating_pod_still_holds_its_node() -> None:
    leaving = {"name": "p", "namespace": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert not pod(metadata=leaving, status={"phase": "Running"}).terminated


def test_gated_is_our_gate_alone() -> None:
    assert pod(spec={"schedulingGates": [{"name": "x"}, {"name": names.TOPOLOGY_GATE}]}).gated
    assert not pod(spec={"schedulingGates": [{"name": "x"}]}).gated


@pytest.mark.parametrize("annotation", names.TAS_ANNOTATIONS)
def test_any_topology_annotation_makes_it_topology_aware_whatever_its_value(annotation: str) -> None:
    assert pod(metadata={"name": "p", "annotations": {annotation: ""}}).topology_aware


def test_workload_is_named_in_the_pods_own_namespace() -> None:
    named = {"name": "p", "namespace": "a", "annotations": {names.WORKLOAD_ANNOTATION: "w"}}
    assert pod(metadata=named).workload == "a/w"
    assert pod().workload is None
    assert pod().key == "a/p"
    assert not pod().topology_aware


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        pytest.param([{"type": "Ready", "status": "True"}], True, id="ready"),
        pytest.param([{"type": "Ready", "status": "False"}], False, id="not ready"),
        pytest.param([{"type": "Ready", "status": "Unknown"}], False, id="unknown"),
        pytest.param([{"type": "DiskPressure", "status": "True"}], False, id="no condition"),
    ],
)
def test_node_ready(conditions: list[Any], ready: bool) -> None:
    node = msgspec.convert({"metadata": {"name": "n"}, "status": {"conditions": conditions}}, Node)
    assert node.ready == ready
    assert node.key == "n"


def test_fields_that_are_not_read_are_skipped() -> None:
    taint = {"key": "k", "effect": "NoSchedule", "timeAdded": "t"}
    raw = {
        "kind": "Node",
        "metadata": {"name": "n", "managedFields": [{}]},
        "spec": {"podCIDR": "x", "taints": [taint]},
    }
    node = msgspec.json.decode(msgspec.json.encode(raw), type=Node)
    assert (node.spec.taints[0].key, node.spec.unschedulable) == ("k", False)
