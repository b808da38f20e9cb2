"""Pods that no Workload counts hold quota of their namespace's elastic quota."""

from __future__ import annotations

import json
from typing import Any

import pytest

from admission.world.objects import Objects
from admission.world.world import World
from api.kube.resources import CLUSTER_QUEUES, NAMESPACES, PODS, WORKLOADS
from api.names import ELASTIC_QUOTA_LABEL, PODSET_LABEL, WORKLOAD_ANNOTATION
from tests.admission.engine.quota.inspection import cohort_usage

CPU = ("elastic-quota", "cpu")


class PodsAndWorkloads:
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

    def workload(self, namespace: str, name: str, pods: int, *, reserved: bool = True) -> None:
        """One that has quota in a queue of its namespace."""
        requests = {"requests": {"cpu": "1", "example.com/other": "1"}}
        template = {"spec": {"containers": [{"name": "main", "resources": requests}]}}
        assigned = {"name": "main", "count": pods, "flavors": {"cpu": "elastic-quota"}}
        assigned["resourceUsage"] = {"cpu": str(pods)}
        condition = {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": ""}
        condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
        status = {"admission": {"clusterQueue": "another", "podSetAssignments": [assigned]}, "conditions": [condition]}
        spec = {"queueName": "another", "podSets": [{"name": "main", "count": pods, "template": template}]}
        meta = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
        self.add(WORKLOADS, {"metadata": meta, "spec": spec, "status": status if reserved else {}})

    def used(self, namespace: str) -> int:
        """Millicores."""
        assert self.world.ledger.audit() == []
        return self.world.ledger.quota.usage(f"elastic-quota.{namespace}").get(CPU, 0)


@pytest.mark.parametrize("quota_first", [True, False], ids=["quota-first", "pods-first"])
def test_bound_pods_without_a_workload_count_in_their_own_namespace(quota_first: bool) -> None:
    cluster = PodsAndWorkloads()
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
    cohort = cohort_usage(cluster.world.ledger.quota, "elastic-quota")
    assert cohort[CPU] == 3000, "what they hold is not lent to others"
    cluster.pod("a", "one", phase="Succeeded")
    assert (cluster.used("a"), cluster.used("b")) == (1000, 1000)


NAMED = pytest.mark.parametrize(
    "named",
    [
        pytest.param({"annotations": {WORKLOAD_ANNOTATION: "w"}}, id="by its annotation"),
        pytest.param({"labels": {PODSET_LABEL: "main"}}, id="by the label of its pod set"),
    ],
)


@NAMED
@pytest.mark.parametrize(
    ("reserved", "used"),
    [
        pytest.param(None, 3000, id="there is no Workload"),
        pytest.param(0, 3000, id="its Workload waits"),
        pytest.param(1, 2000, id="its Workload has fewer pods"),
        pytest.param(3, 0, id="its Workload counts them"),
        pytest.param(9, 0, id="its Workload counts more than run"),
    ],
)
@pytest.mark.parametrize("pods_first", [True, False], ids=["pods-first", "Workload-first"])
def test_what_a_pod_says_of_itself_hides_no_more_than_workloads_have_reserved(
    named: dict[str, Any], reserved: int | None, used: int, pods_first: bool
) -> None:
    """A user that may write a running pod cannot take it out of the quota."""
    cluster = PodsAndWorkloads()
    cluster.quota("a")
    if reserved is not None and not pods_first:
        cluster.workload("a", "w", max(1, reserved), reserved=reserved > 0)
    for name in ("one", "two", "three"):
        cluster.pod("a", name, **named)
    if reserved is not None and pods_first:
        cluster.workload("a", "w", max(1, reserved), reserved=reserved > 0)
    assert cluster.used("a") == used


def test_an_annotation_on_a_pod_that_ran_before_changes_nothing() -> None:
    """The attack as it was found."""
    cluster = PodsAndWorkloads()
    cluster.pod("a", "old")
    cluster.quota("a")
    assert cluster.used("a") == 1000
    cluster.pod("a", "old", annotations={WORKLOAD_ANNOTATION: "nobody"})
    assert cluster.used("a") == 1000


def test_an_evicted_pod_on_its_way_out_is_not_counted_beside_the_workload_that_comes() -> None:
    cluster = PodsAndWorkloads()
    cluster.quota("a")
    out: dict[str, Any] = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    cluster.pod("a", "leaves", annotations={WORKLOAD_ANNOTATION: "w"}, **out)
    assert cluster.used("a") == 0
    cluster.pod("a", "old", **out)
    assert cluster.used("a") == 1000, "one that names nothing counts until it is gone"


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param({"phase": "Failed"}, id="ended"),
        pytest.param({"node": ""}, id="not bound"),
    ],
)
def test_other_pods_do_not(pod: dict[str, Any]) -> None:
    cluster = PodsAndWorkloads()
    cluster.quota("a")
    cluster.pod("a", "other", **pod)
    assert cluster.used("a") == 0


def test_a_queue_counts_no_pods_of_another_namespace() -> None:
    cluster = PodsAndWorkloads()
    cluster.quota("a", label="b")
    cluster.pod("a", "one")
    cluster.pod("b", "one")
    cluster.quota("a", label="b")
    assert cluster.used("a") == 0
