"""The control plane itself, started for real: what the other suites rely on."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from hack.controlplane import jobset, processes
from hack.controlplane.api import eventually
from hack.controlplane.cluster import STATE, ControlPlane
from hack.controlplane.errors import ControlPlaneError, RequestError
from hack.controlplane.fixtures import cluster, control_plane_tools, new_cluster
from hack.controlplane.nodes import fail_node, heal_node, node
from hack.controlplane.options import ClusterOptions

__all__ = ["cluster", "control_plane_tools", "new_cluster"]

pytestmark = pytest.mark.e2e
CONTROL_PLANE = ClusterOptions(jobset=True)
PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"


@pytest.fixture(scope="module")
def ready(cluster: ControlPlane) -> ControlPlane:
    cluster.add_nodes(node(f"n{index}", {"example.com/rack": f"r{index // 2}"}) for index in range(4))
    return cluster


def job(name: str, annotations: dict[str, str], rack: str = "r0") -> dict[str, Any]:
    spec = {
        "restartPolicy": "Never",
        "nodeSelector": {"example.com/rack": rack},
        "containers": [{"name": "main", "image": "none"}],
    }
    template = {"metadata": {"annotations": annotations, "labels": {"test": name}}, "spec": spec}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"parallelism": 2, "completions": 2, "backoffLimit": 0, "template": template},
    }


def has_condition(control_plane: ControlPlane, name: str, kind: str) -> bool:
    conditions = control_plane.api.get(f"{JOBS}/{name}")["status"].get("conditions") or []
    return any(item["type"] == kind and item["status"] == "True" for item in conditions)


def pods(control_plane: ControlPlane, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = control_plane.api.get(f"{PODS}?labelSelector=test%3D{name}")["items"]
    return found


@pytest.mark.parametrize(
    ("name", "annotations", "condition", "phase"),
    [
        pytest.param("good", {"stowage.test/run-for": "200ms"}, "Complete", "Succeeded", id="succeeds"),
        pytest.param(
            "bad", {"stowage.test/run-for": "200ms", "stowage.test/exit-code": "3"}, "Failed", "Failed", id="fails"
        ),
    ],
)
def test_pods_end_as_annotated(
    ready: ControlPlane, name: str, annotations: dict[str, str], condition: str, phase: str
) -> None:
    ready.api.create(JOBS, job(name, annotations))
    eventually(f"job {name} {condition}", lambda: has_condition(ready, name, condition))
    assert {pod["status"]["phase"] for pod in pods(ready, name)} == {phase}


def test_a_pod_without_annotation_runs_where_it_was_bound(ready: ControlPlane) -> None:
    ready.api.create(JOBS, job("steady", {}, rack="r1"))
    eventually("two pods run", lambda: [pod["status"]["phase"] for pod in pods(ready, "steady")] == ["Running"] * 2)
    assert {pod["spec"]["nodeName"] for pod in pods(ready, "steady")} <= {"n2", "n3"}
    ready.api.delete(f"{JOBS}/steady?propagationPolicy=Foreground")
    eventually("pods are gone", lambda: not pods(ready, "steady"))


def test_a_jobset_becomes_running_pods(ready: ControlPlane) -> None:
    ready.api.create(JOBSETS, jobset.example("set"))
    selector = f"{PODS}?labelSelector=jobset.sigs.k8s.io/jobset-name%3Dset"
    eventually(
        "its pod runs", lambda: [pod["status"]["phase"] for pod in ready.api.get(selector)["items"]] == ["Running"]
    )


def test_jobsets_webhook_refuses_what_jobset_forbids(ready: ControlPlane) -> None:
    given = jobset.example("twice")
    given["spec"]["replicatedJobs"] *= 2
    with pytest.raises(RequestError, match="main") as refused:
        ready.api.create(JOBSETS, given)
    assert refused.value.status in (403, 422)


def test_a_service_account_has_its_rights_and_no_more(ready: ControlPlane) -> None:
    ready.kubectl("create", "serviceaccount", "reader")
    path = str(ready.service_account("default", "reader"))
    assert "Forbidden" in ready.try_kubectl("--kubeconfig", path, "get", "pods").stderr
    ready.kubectl("create", "rolebinding", "reader", "--clusterrole=view", "--serviceaccount=default:reader")
    eventually("it may read", lambda: ready.try_kubectl("--kubeconfig", path, "get", "pods").returncode == 0)
    assert "Forbidden" in ready.try_kubectl("--kubeconfig", path, "get", "nodes").stderr


def test_a_user_has_no_rights_of_its_own(ready: ControlPlane) -> None:
    with pytest.raises(ControlPlaneError, match='User "guest" cannot list resource "pods"'):
        ready.kubectl("--kubeconfig", str(ready.user("guest")), "get", "pods")


def test_a_node_fails_and_heals(ready: ControlPlane) -> None:
    fail_node(ready.api, "n3")
    assert "NotReady" in ready.kubectl("get", "node", "n3")
    heal_node(ready.api, "n3")
    assert "NotReady" not in ready.kubectl("get", "node", "n3")


def test_nothing_is_left_of_a_stopped_cluster(new_cluster: Callable[[ClusterOptions], ControlPlane]) -> None:
    started = new_cluster(ClusterOptions(kwok=False, scheduler=False, controller_manager=False, tmpfs=True))
    state = json.loads((started.folder / STATE).read_text())
    assert [name for name, _ in state["pids"]] == ["etcd", "apiserver"]
    started.stop()
    assert not any(processes.alive(pid) for _, pid in state["pids"])
    assert not started.site.etcd_data.exists()
    assert not (started.folder / STATE).exists()


def test_a_server_that_cannot_start_says_why(new_cluster: Callable[[ClusterOptions], ControlPlane]) -> None:
    with pytest.raises(ControlPlaneError, match=r"(?s)apiserver ended with 1.*unrecognized feature gate: NoSuchGate"):
        new_cluster(ClusterOptions(feature_gates={"NoSuchGate": True}))
