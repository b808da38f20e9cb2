"""The scheduler's stand-in: which node takes a pod, and that no node is ever over-booked."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.embedded.workers.kubelet import Kubelet
from api.embedded.workers.scheduler import PodScheduler
from api.kube.resources import NODES, PODS
from tests.api.embedded.workers.cluster import RACK, Cluster, pod
from tests.budgets import quick


def terms(**term: Any) -> dict[str, Any]:
    needed = {"nodeSelectorTerms": [term]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": needed}}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.node("a", labels={RACK: "r1", "size": "3"})
    made.node("b", labels={RACK: "r2"})
    made.node("c", labels={RACK: "r2"}, spec={"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]})
    made.node("d", labels={RACK: "r3"}, spec={"unschedulable": True})
    return made


@pytest.mark.parametrize(
    ("spec", "node"),
    [
        pytest.param({}, "a", id="the first by name"),
        pytest.param({"nodeSelector": {RACK: "r2"}}, "b", id="node selector"),
        pytest.param({"nodeSelector": {RACK: "r9"}}, None, id="no such label"),
        pytest.param(terms(matchExpressions=[expression(RACK, "NotIn", "r1")]), "b", id="affinity NotIn"),
        pytest.param(terms(matchExpressions=[expression("size", "Gt", "2")]), "a", id="affinity Gt"),
        pytest.param(terms(matchExpressions=[expression("size", "DoesNotExist")]), "b", id="affinity DoesNotExist"),
        pytest.param(terms(matchFields=[expression("metadata.name", "In", "b")]), "b", id="node by name"),
        pytest.param(terms(matchFields=[expression("metadata.name", "In", "z")]), None, id="no such node"),
        pytest.param({"nodeSelector": {"kubernetes.io/hostname": "c"}}, None, id="taint keeps out"),
        pytest.param(
            {"nodeSelector": {"kubernetes.io/hostname": "c"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]},
            "c",
            id="taint tolerated",
        ),
        pytest.param(
            {"nodeSelector": {"kubernetes.io/hostname": "c"}, "tolerations": [{"key": "gpu", "value": "no"}]},
            None,
            id="another value is not tolerated",
        ),
        pytest.param({"nodeSelector": {"kubernetes.io/hostname": "d"}}, None, id="unschedulable"),
        pytest.param({"cpu": "5"}, None, id="too large"),
        pytest.param({"schedulingGates": [{"name": "example.com/g"}]}, None, id="gated"),
        pytest.param({"schedulerName": "other"}, None, id="of another scheduler"),
    ],
)
def test_where_a_pod_goes(cluster: Cluster, spec: dict[str, Any], node: str | None) -> None:
    cluster.post(pod("p", **spec))
    found = cluster.pods()[0]
    assert found["spec"].get("nodeName") == node
    assert found["status"]["phase"] == ("Running" if node else "Pending")


def test_a_pod_that_fits_nowhere_says_why(cluster: Cluster) -> None:
    cluster.post(pod("p", cpu="5"))
    condition = cluster.pods()[0]["status"]["conditions"][0]
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    assert condition["message"] == (
        "0/4 nodes are available: 1 node(s) had untolerated taint(s) {gpu: yes}, 1 node(s) were unschedulable, "
        "2 Insufficient cpu."
    )


def test_an_opened_gate_lets_the_pod_go(cluster: Cluster) -> None:
    cluster.post(pod("p", schedulingGates=[{"name": "example.com/g"}]))
    body = {"spec": {"schedulingGates": None, "nodeSelector": {RACK: "r2"}}}
    cluster.store.patch(PODS, "p", body, "default")
    cluster.settle()
    assert cluster.pods()[0]["spec"]["nodeName"] == "b"


def test_a_waiting_pod_goes_when_room_is_made(cluster: Cluster) -> None:
    only_a = {"nodeSelector": {RACK: "r1"}}
    cluster.post(pod("first", cpu="4", **only_a))
    cluster.post(pod("second", cpu="4", **only_a))
    assert cluster.phases() == ["Running", "Pending"]
    cluster.store.delete(PODS, "first", "default")
    cluster.settle()
    assert cluster.phases() == ["Running"]


def test_a_waiting_pod_goes_to_a_new_node(cluster: Cluster) -> None:
    cluster.post(pod("p", cpu="8"))
    cluster.node("e", cpu="8")
    assert cluster.pods()[0]["spec"]["nodeName"] == "e"


def test_higher_priority_goes_first() -> None:
    cluster = Cluster((PodScheduler, Kubelet))
    for name, priority in (("low", 1), ("high", 9)):
        cluster.store.create(PODS, pod(name, cpu="4", priority=priority), "default")
    cluster.node("a")
    assert {item["metadata"]["name"]: item["spec"].get("nodeName") for item in cluster.pods()} == {
        "low": None,
        "high": "a",
    }


@settings(max_examples=quick(40), deadline=None)
@given(
    sizes=st.lists(st.integers(1, 8), min_size=1, max_size=5),
    pods=st.lists(st.tuples(st.integers(1, 6), st.booleans()), max_size=25),
)
def test_no_node_is_ever_over_booked(sizes: list[int], pods: list[tuple[int, bool]]) -> None:
    cluster = Cluster((PodScheduler, Kubelet))
    for index, size in enumerate(sizes):
        cluster.node(f"n{index}", cpu=str(size))
    used: Counter[str] = Counter()
    for index, (cpu, short) in enumerate(pods):
        body = pod(f"p{index:02}", cpu=str(cpu))
        body["metadata"]["annotations"] = {"stowage.test/run-for": "1s"} if short else {}
        cluster.post(body)
        if index % 5 == 4:
            cluster.after(1)
        used.clear()
        for item in cluster.pods():
            if item["status"]["phase"] == "Running":
                used[item["spec"]["nodeName"]] += int(item["spec"]["containers"][0]["resources"]["requests"]["cpu"])
        assert all(used[f"n{index}"] <= size for index, size in enumerate(sizes))
    # a pod waits only where no node has room for it
    waiting = [item for item in cluster.pods() if item["status"]["phase"] == "Pending"]
    smallest = min((int(p["spec"]["containers"][0]["resources"]["requests"]["cpu"]) for p in waiting), default=99)
    assert all(size - used[f"n{index}"] < smallest for index, size in enumerate(sizes))


def test_a_node_that_goes_takes_its_room_along(cluster: Cluster) -> None:
    for name in ("a", "b", "c", "d"):
        cluster.store.delete(NODES, name)
    cluster.post(pod("p"))
    assert cluster.pods()[0]["status"]["conditions"][0]["message"] == "no nodes available to schedule pods"
