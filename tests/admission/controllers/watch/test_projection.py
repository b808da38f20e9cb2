"""What the controller keeps of pods and nodes, and what it says of those it cannot count."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from admission.controllers.watch.projection import NodeReader, PodReader
from admission.engine.convert import convert_nodes
from admission.engine.model import BoundPod
from api.errors import InvalidObject
from api.kube.decode import DECODE_ERRORS, identity, undecodable
from api.pod.pod_terms import PodFacts
from api.pod.pods import Node, Taint
from tests.builders import pod_template


def wire(name: str = "p", *, node: str = "n", phase: str = "Running", cpu: str = "1") -> bytes:
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "ns",
        "uid": f"uid-{name}",
        "resourceVersion": "7",
        "annotations": {"kueue.x-k8s.io/workload": "w"},
        "labels": {"kueue.x-k8s.io/podset": "main"},
    }
    spec = {**pod_template(cpu)["spec"], "nodeName": node}
    return msgspec.json.encode({"metadata": metadata, "spec": spec, "status": {"phase": phase}})


def test_a_bound_pod_is_kept_as_the_engine_takes_it() -> None:
    kept = PodReader()(wire())
    facts = PodFacts("ns", (("kueue.x-k8s.io/podset", "main"),))
    assert kept.bound == BoundPod("ns/p", "n", {"cpu": 1000}, "ns/w", "main", facts=facts)
    assert (identity(kept).key, identity(kept).uid, identity(kept).resource_version) == ("ns/p", "uid-p", "7")


@pytest.mark.parametrize("value", [wire(node=""), wire(phase="Succeeded")], ids=["unbound", "done"])
def test_of_a_pod_that_holds_no_node_only_the_name_is_kept(value: bytes) -> None:
    assert PodReader()(value).bound is None


def test_pods_of_one_shape_share_it() -> None:
    read = PodReader()
    one, other, larger = (read(given).bound for given in (wire("a"), wire("b"), wire("c", cpu="2")))
    assert one is not None
    assert other is not None
    assert one.requests is other.requests
    assert larger is not None
    assert larger.requests == {"cpu": 2000}


@pytest.mark.parametrize(
    ("cpu", "granted", "has", "state", "counts"),
    [
        pytest.param("4", "1", "1", None, 4000, id="of a node that says nothing of it"),
        pytest.param("4", "1", "1", ("PodResizePending", "Deferred"), 4000, id="grows, and its node is full"),
        pytest.param("4", "1", "1", ("PodResizePending", "Infeasible"), 1000, id="grows beyond its node"),
        pytest.param("4", "4", "1", ("PodResizeInProgress", ""), 4000, id="grows"),
        pytest.param("1", "4", "4", ("PodResizePending", "Deferred"), 4000, id="shrinks, not yet granted"),
        pytest.param("1", "1", "4", ("PodResizeInProgress", ""), 4000, id="shrinks"),
        pytest.param("4", "", "", ("PodResizePending", "Infeasible"), 4000, id="without a status of the container"),
    ],
)
def test_a_pod_that_is_resized_counts_as_kube_scheduler_counts_it(
    cpu: str, granted: str, has: str, state: tuple[str, str] | None, counts: int
) -> None:
    """The largest of what it requests, what its node has granted and what it has, but for a request that is refused."""
    pod = msgspec.json.decode(wire(cpu=cpu))
    [container] = pod["spec"]["containers"]
    status = {"name": container.get("name", ""), "allocatedResources": {"cpu": granted} if granted else {}}
    status["resources"] = {"requests": {"cpu": has} if has else {}}
    pod["status"]["containerStatuses"] = [status]
    pod["status"]["conditions"] = [{"type": state[0], "status": "True", "reason": state[1]}] if state else []
    bound = PodReader()(msgspec.json.encode(pod)).bound
    assert bound is not None
    assert bound.requests == {"cpu": counts}


def test_a_pod_that_cannot_be_counted_is_left_out_by_name_and_field() -> None:
    given = wire(cpu="much")
    with pytest.raises(InvalidObject) as caught:
        PodReader()(given)
    assert isinstance(caught.value, DECODE_ERRORS)
    assert str(undecodable("Pod", given, caught.value)).startswith("Pod ns/p: spec: requests[cpu]: 'much'")


# ---- nodes


def node(name: str = "n", *, cpu: str = "4", taints: list[dict[str, str]] | None = None) -> bytes:
    conditions = [
        {"type": "DiskPressure", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T00:00:00Z"},
    ]
    metadata = {
        "name": name,
        "uid": f"uid-{name}",
        "resourceVersion": "7",
        "labels": {"kubernetes.io/hostname": name, "rack": "r1"},
        "annotations": {"big": "x" * 1000},
        "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {}}}],
    }
    status = {"allocatable": {"cpu": cpu, "pods": "110"}, "conditions": conditions, "images": [{"names": ["i"]}]}
    return msgspec.json.encode({"metadata": metadata, "spec": {"taints": taints or []}, "status": status})


def test_the_engine_takes_a_node_as_if_it_were_kept_whole() -> None:
    given = node(taints=[{"key": "k", "effect": "NoSchedule"}])
    kept, whole = NodeReader()(given), msgspec.json.decode(given, type=Node)
    assert convert_nodes.node(kept) == convert_nodes.node(whole)
    assert convert_nodes.node(kept).allocatable == {"cpu": 4000, "pods": 110}
    assert kept.spec.taints == (Taint(key="k", effect="NoSchedule"),)
    assert identity(kept) == identity(whole)


def test_of_a_node_only_the_fields_that_are_read_are_kept() -> None:
    kept = NodeReader()(node())
    assert kept.metadata.annotations == {}
    assert [(c.type, c.last_transition_time) for c in kept.status.conditions] == [("Ready", "2026-01-02T00:00:00Z")]


def test_nodes_of_one_kind_share_what_they_offer() -> None:
    read = NodeReader()
    one, other, larger = (read(given) for given in (node("a"), node("b"), node("c", cpu="8")))
    assert one.status.allocatable is other.status.allocatable
    assert convert_nodes.node(one).allocatable is convert_nodes.node(other).allocatable
    assert convert_nodes.node(larger).allocatable["cpu"] == 8000
    assert (one.metadata.labels["kubernetes.io/hostname"], other.metadata.labels["rack"]) == ("a", "r1")


def test_a_node_that_offers_what_is_no_quantity_is_named() -> None:
    with pytest.raises(InvalidObject, match=r"Node n: status\.allocatable\[cpu\]"):
        convert_nodes.node(NodeReader()(node(cpu="much")))
