"""Posted CRDs: our own are served, with their defaults and checks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from api.embedded.status import StatusError
from api.embedded.store import ObjectStorage
from api.kube.resources import CLUSTER_QUEUES, CRDS, RESOURCE_FLAVORS, TOPOLOGIES, WORKLOADS
from api.names import API_VERSION
from api.text.manifests import read_one

FOLDER = Path(__file__).parents[3] / "config" / "crd"


@pytest.fixture
def store() -> ObjectStorage:
    store = ObjectStorage(seed=1)
    for path in sorted(FOLDER.glob("kueue*.yaml")):
        store.create(CRDS, read_one(path))
    return store


def test_our_kinds_appear_and_go_with_their_crd(store: ObjectStorage) -> None:
    crd = store.get(CRDS, "topologies.kueue.x-k8s.io")
    assert {item["type"]: item["status"] for item in crd["status"]["conditions"]} == {
        "NamesAccepted": "True",
        "Established": "True",
    }
    levels = {"spec": {"levels": [{"nodeLabel": "kubernetes.io/hostname"}]}}
    assert store.create(TOPOLOGIES, {"metadata": {"name": "x"}, **levels})["apiVersion"] == API_VERSION
    store.delete(CRDS, "topologies.kueue.x-k8s.io")
    with pytest.raises(StatusError, match="could not find the requested resource"):
        store.list(TOPOLOGIES)


def _workload(name: str, **spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "c", "image": "i", "unknownToNobody": 1}], "restartPolicy": "Never"}}
    pod_sets = [{"name": "main", "count": 2, "template": template}]
    return {"metadata": {"name": name}, "spec": {"queueName": "main", "podSets": pod_sets, **spec}}


def test_a_workload_is_stored_with_its_status_apart(store: ObjectStorage) -> None:
    made = store.create(WORKLOADS, {**_workload("x"), "status": {"conditions": []}}, "default")
    assert "status" not in made
    condition = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": "waits"}
    condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    body = {"status": {"conditions": [condition]}}
    after = store.patch(WORKLOADS, "x", body, "default", subresource="status")
    assert after["status"]["conditions"] == [condition]
    assert after["metadata"]["generation"] == made["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    "body", [{"metadata": {"name": "x"}, "spec": {"queueName": 3}}, _workload("x", podSets="none")]
)
def test_a_broken_workload_is_refused(store: ObjectStorage, body: dict[str, Any]) -> None:
    with pytest.raises(StatusError) as refused:
        store.create(WORKLOADS, body, "default")
    assert (refused.value.status, refused.value.reason) == (422, "Invalid")


def test_queues_and_flavors_load(store: ObjectStorage) -> None:
    store.create(RESOURCE_FLAVORS, {"metadata": {"name": "default"}, "spec": {}})
    flavor = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": 4}]}
    spec = {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [flavor]}]}
    made = store.create(CLUSTER_QUEUES, {"metadata": {"name": "main"}, "spec": spec})
    assert made["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] == 4
    assert made["spec"]["queueingStrategy"] == "BestEffortFIFO"
