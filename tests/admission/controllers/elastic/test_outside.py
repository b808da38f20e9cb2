"""Pods that no Workload counts hold quota of their namespace's elastic quota (issue 16, A2)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from admission.world.objects import Objects
from admission.world.world import World
from api.kube.resources import CLUSTER_QUEUES, NAMESPACES, PODS
from api.names import ELASTIC_QUOTA_LABEL, PODSET_LABEL, WORKLOAD_ANNOTATION

CPU = ("elastic-quota", "cpu")


class Cluster:
    """Elastic quotas of 2 cpu each, in the form of queues, and pods."""

    def __init__(self) -> None:
        self.world = World()
        self.objects = Objects(self.world.state)
        self.version = 0

    def add(self, kind: Any, obj: dict[str, Any]) -> None:
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        self.objects.add(kind, json.dumps(obj).encode())

    def quota(self, namespace: str, *, label: str | None = None) -> None:
        self.add(NAMESPACES, {"metadata": {"name": namespace}})
        amounts = [{"name": name, "nominalQuota": "2"} for name in ("cpu", "pods")]
        group = {"coveredResources": ["cpu", "pods"], "flavors": [{"name": "elastic-quota", "resources": amounts}]}
        labels = {ELASTIC_QUOTA_LABEL: label or namespace}
        meta = {"name": f"elastic-quota.{namespace}", "labels": labels}
        self.add(CLUSTER_QUEUES, {"metadata": meta, "spec": {"cohortName": "elastic-quota", "resourceGroups": [group]}})

    def pod(self, namespace: str, name: str, *, node: str = "n1", phase: str = "Running", **metadata: Any) -> None:
        requests = {"cpu": "1", "example.com/other": "1"}
        spec = {"containers": [{"name": "main", "resources": {"requests": requests}}], "nodeName": node}
        meta = {"name": name, "namespace": namespace, **metadata}
        self.add(PODS, {"metadata": meta, "spec": spec, "status": {"phase": phase}})

    def used(self, namespace: str) -> int:
        """Millicores."""
        assert self.world.ledger.audit() == []
        return self.world.ledger.quota.usage(f"elastic-quota.{namespace}").get(CPU, 0)


@pytest.mark.parametrize("quota_first", [True, False], ids=["quota-first", "pods-first"])
def test_bound_pods_without_a_workload_count_in_their_own_namespace(quota_first: bool) -> None:
    cluster = Cluster()
    if quota_first:
        cluster.quota("a")
        cluster.quota("b")
    cluster.pod("a", "one")
    cluster.pod("a", "two")
    cluster.pod("b", "one")
    if not quota_first:
        cluster.quota("a")
        cluster.quota("b")
    assert (cluster.used("a"), cluster.used("b")) == (2000, 1000)
    cohort = cluster.world.ledger.quota.cohort_usage("elastic-quota")
    assert cohort[CPU] == 3000, "what they hold is not lent to others"
    cluster.pod("a", "one", phase="Succeeded")
    assert (cluster.used("a"), cluster.used("b")) == (1000, 1000)


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param({"annotations": {WORKLOAD_ANNOTATION: "w"}}, id="its Workload counts it"),
        pytest.param({"labels": {PODSET_LABEL: "main"}}, id="of an admitted pod set, without topology"),
        pytest.param({"phase": "Failed"}, id="ended"),
        pytest.param({"node": ""}, id="not bound"),
    ],
)
def test_other_pods_do_not(pod: dict[str, Any]) -> None:
    cluster = Cluster()
    cluster.quota("a")
    cluster.pod("a", "other", **pod)
    assert cluster.used("a") == 0


def test_a_queue_counts_no_pods_of_another_namespace() -> None:
    cluster = Cluster()
    cluster.quota("a", label="b")
    cluster.pod("a", "one")
    cluster.pod("b", "one")
    cluster.quota("a", label="b")
    assert cluster.used("a") == 0
