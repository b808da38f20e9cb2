"""Which places of pods that no node takes are given up, and which pods are ended."""

from __future__ import annotations

from typing import Any

import pytest

from admission.controllers.nodes.displaced import Displacement, StuckPod, displacement, successors
from api.assignment import encode
from api.names import HOSTNAME_LABEL
from api.workloads import Admission, PodSetAssignment, Workload
from tests.builders import workload

SAYS = "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't match Pod's node affinity/selector."
VOLUME = "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims."


def placed(**hosts: int) -> Workload:
    """Its pod set `main` has so many places on each host."""
    made = workload(admitted=True, count=sum(hosts.values()))
    given = encode((HOSTNAME_LABEL,), [((host,), count) for host, count in hosts.items()])
    assigned = PodSetAssignment(name="main", count=sum(hosts.values()), topology_assignment=given)
    admission = Admission(cluster_queue="cq", pod_set_assignments=(assigned,))
    return made.model_copy(update={"status": made.status.model_copy(update={"admission": admission})})


def stuck(host: str, count: int, says: str = SAYS) -> list[StuckPod]:
    return [StuckPod(f"{host}-{n}", ("main", host), says) for n in range(count)]


@pytest.mark.parametrize(
    ("hosts", "bound", "pods", "result"),
    [
        pytest.param({"a": 1, "b": 1}, {"b": 1}, stuck("a", 1), Displacement((), {("main", "a"): 1}), id="place-taken"),
        pytest.param({"a": 4}, {"a": 3}, stuck("a", 1), Displacement((), {("main", "a"): 1}), id="one-of-a-host"),
        pytest.param({"a": 2, "b": 1}, {}, stuck("a", 2), Displacement((), {("main", "a"): 2}), id="all-of-a-host"),
        pytest.param({"a": 3, "b": 1}, {"a": 3}, stuck("a", 1), Displacement(("a-0",), {}), id="place-given-up"),
        pytest.param({"b": 2}, {"b": 1}, stuck("a", 1), Displacement(("a-0",), {}), id="host-left"),
        pytest.param({"a": 2}, {"a": 1}, stuck("a", 2), Displacement(("a-1",), {("main", "a"): 1}), id="one-too-many"),
        pytest.param({"a": 1}, {}, stuck("a", 1, VOLUME), Displacement(), id="no-other-host-helps"),
    ],
)
def test_places_are_given_up_and_pods_without_a_place_are_ended(
    hosts: dict[str, int], bound: dict[str, int], pods: list[StuckPod], result: Displacement
) -> None:
    assert displacement(placed(**hosts), pods, {("main", host): n for host, n in bound.items()}) == result


def job(limit: int | None = 0, failed: int = 0, **spec: Any) -> dict[str, Any]:
    return {"kind": "Job", "spec": {"backoffLimit": limit, **spec}, "status": {"failed": failed}}


def policy(action: str, kind: str = "DisruptionTarget") -> dict[str, Any]:
    return {"podFailurePolicy": {"rules": [{"action": action, "onPodConditions": [{"type": kind, "status": "True"}]}]}}


@pytest.mark.parametrize(
    ("owner", "pods", "follows"),
    [
        pytest.param({"kind": "StatefulSet"}, 3, True, id="stateful-set"),
        pytest.param({"kind": "RayCluster"}, 1, False, id="another-kind"),
        pytest.param(job(0), 1, False, id="job-that-would-fail"),
        pytest.param(job(3, failed=1), 2, True, id="within-the-limit"),
        pytest.param(job(3, failed=2), 2, False, id="beyond-the-limit"),
        pytest.param(job(None), 6, True, id="default-limit"),
        pytest.param(job(0, **policy("Ignore")), 4, True, id="policy-ignores"),
        pytest.param(job(9, **policy("FailJob")), 1, False, id="policy-fails"),
        pytest.param(job(0, **policy("Ignore", "Other")), 1, False, id="policy-for-others"),
        pytest.param(job(None, backoffLimitPerIndex=1), 1, False, id="limit-of-each-index"),
        pytest.param(job(9, suspend=True), 1, False, id="suspended"),
    ],
)
def test_pods_are_ended_only_where_others_follow(owner: dict[str, Any], pods: int, follows: bool) -> None:
    assert successors(owner, pods) is follows
