"""Conversion of nodes and bound pods, and how bad input is named."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from admission.engine import model
from admission.engine.convert import convert_nodes
from api.errors import InvalidObject
from api.pod import pods
from tests.admission.engine.wire import template


def node(ready: str, **spec: Any) -> pods.Node:
    wire = {
        "metadata": {"name": "n", "labels": {"rack": "r"}},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": "3900m", "pods": "110"},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }
    return msgspec.convert(wire, pods.Node)


@pytest.mark.parametrize(
    ("given_node", "usable", "responds"),
    [
        pytest.param(node("True"), True, True, id="ready"),
        pytest.param(node("Unknown"), False, False, id="not ready"),
        pytest.param(node("True", unschedulable=True), False, True, id="cordoned"),
    ],
)
def test_a_node(given_node: pods.Node, usable: bool, responds: bool) -> None:
    assert convert_nodes.node(given_node) == model.Node(
        "n", {"rack": "r"}, {"cpu": 3900, "pods": 110}, (), usable, responds=responds
    )


def pod(phase: str = "Running", node_name: str = "n", **annotations: str) -> pods.Pod:
    names = {f"kueue.x-k8s.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    wire = {
        "metadata": {"name": "p", "namespace": "ns", "annotations": names, "labels": {"kueue.x-k8s.io/podset": "main"}},
        "spec": {"nodeName": node_name, **template(cpu="1")["spec"]},
        "status": {"phase": phase},
    }
    return msgspec.convert(wire, pods.Pod)


@pytest.mark.parametrize(
    ("given_pod", "workload"),
    [
        pytest.param(pod(), None, id="a stranger"),
        pytest.param(pod(workload="w"), "ns/w", id="one of ours"),
        pytest.param(pod(topology_workload="w"), "ns/w", id="one of ours, by the first form"),
    ],
)
def test_a_bound_pod(given_pod: pods.Pod, workload: str | None) -> None:
    facts = model.PodFacts("ns", tuple(given_pod.metadata.labels.items()))
    assert convert_nodes.bound_pod(given_pod) == model.BoundPod(
        "ns/p", "n", {"cpu": 1000}, workload, "main", facts=facts
    )


@pytest.mark.parametrize(
    "gone", [pod("Succeeded"), pod("Failed"), pod(node_name="")], ids=["done", "failed", "unbound"]
)
def test_a_pod_that_holds_no_node(gone: pods.Pod) -> None:
    assert convert_nodes.bound_pod(gone) is None


def test_a_bad_node_and_a_bad_pod_are_named() -> None:
    bad = msgspec.convert({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "x"}}}, pods.Node)
    with pytest.raises(InvalidObject, match=r"^Node n: status\.allocatable\[cpu\]: 'x'"):
        convert_nodes.node(bad)
    spec = {"nodeName": "n", "overhead": {"cpu": "x"}}
    with pytest.raises(InvalidObject, match=r"^Pod ns/p: spec: overhead\[cpu\]: 'x'"):
        convert_nodes.bound_pod(msgspec.convert({"metadata": {"name": "p", "namespace": "ns"}, "spec": spec}, pods.Pod))
