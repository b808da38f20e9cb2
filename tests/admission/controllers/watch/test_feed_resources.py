"""What of a Workload's resources is looked at before it is considered, and what of them quota counts."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest

from admission.engine.convert import convert_admissions
from admission.engine.decision import Admit, Wait
from admission.engine.quota.charging import PLAIN, ResourceRules, Transformation
from admission.world.objects import Objects
from admission.world.rules import WorldRules
from admission.world.world import World
from api.kube.resources import (
    CLUSTER_QUEUES,
    LIMIT_RANGES,
    LOCAL_QUEUES,
    NAMESPACES,
    RESOURCE_FLAVORS,
    RUNTIME_CLASSES,
    WORKLOADS,
)
from api.names import ADMITTED, QUOTA_RESERVED

MAX_TWO = [{"type": "Container", "max": {"cpu": "2"}}]


def reserved() -> list[dict[str, Any]]:
    """Conditions of an admitted Workload."""
    since = {"status": "True", "reason": "X", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    return [{"type": kind, **since} for kind in (QUOTA_RESERVED, ADMITTED)]


class FeedCluster:
    """A queue without topology, of ten CPUs and ten credits."""

    def __init__(self, rules: ResourceRules = PLAIN) -> None:
        self.world = World()
        self.objects, self.version = Objects(self.world.state, WorldRules(resources=rules)), 1
        amounts = [{"name": name, "nominalQuota": 10} for name in ("cpu", "credits")]
        groups = [{"coveredResources": ["cpu", "credits"], "flavors": [{"name": "any", "resources": amounts}]}]
        self.add(NAMESPACES, {"metadata": {"name": "ns"}})
        self.add(RESOURCE_FLAVORS, {"metadata": {"name": "any"}, "spec": {}})
        queue = {"namespaceSelector": {}, "resourceGroups": groups, "queueingStrategy": "StrictFIFO"}
        self.add(CLUSTER_QUEUES, {"metadata": {"name": "cq"}, "spec": queue})
        self.add(LOCAL_QUEUES, {"metadata": {"name": "lq", "namespace": "ns"}, "spec": {"clusterQueue": "cq"}})

    def add(self, kind: Any, obj: dict[str, Any]) -> None:
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        self.objects.add(kind, json.dumps(obj).encode())

    def limits(self, limits: list[dict[str, Any]], namespace: str = "ns") -> None:
        self.add(LIMIT_RANGES, {"metadata": {"name": "limits", "namespace": namespace}, "spec": {"limits": limits}})

    def workload(
        self, requests: dict[str, str], limits: dict[str, str] | None = None, *, name: str = "w", **more: Any
    ) -> None:
        spec = {"containers": [{"name": "c", "resources": {"requests": requests, "limits": limits or {}}}], **more}
        pod_set = {"name": "main", "count": 1, "template": {"spec": spec}}
        self.add(WORKLOADS, {**self._named(name), "spec": {"queueName": "lq", "podSets": [pod_set]}})

    def admit(self, told: Admit, requests: dict[str, str], **more: Any) -> None:
        """The Workload `w` with the admission in its status."""
        spec = {"containers": [{"name": "c", "resources": {"requests": requests, "limits": {}}}], **more}
        pod_set = {"name": "main", "count": 1, "template": {"spec": spec}}
        status = {"conditions": reserved(), "admission": convert_admissions.to_status(told.admission).to_wire()}
        self.add(WORKLOADS, {**self._named("w"), "spec": {"queueName": "lq", "podSets": [pod_set]}, "status": status})

    @staticmethod
    def _named(name: str) -> dict[str, Any]:
        meta = {"name": name, "namespace": "ns", "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
        return {"metadata": meta}

    def decision(self) -> Any:
        [decision] = self.world.cycle().decisions
        return decision


def test_requests_above_their_limits_wait_and_say_so() -> None:
    cluster = FeedCluster()
    cluster.workload({"cpu": "3"}, {"cpu": "2"})
    told = cluster.decision()
    assert isinstance(told, Wait)
    assert (told.reason, told.message.split(":")[0]) == ("Misconfigured", "resources validation failed")


@pytest.mark.parametrize("first", ["limits", "workload"])
def test_a_limit_range_holds_a_workload_until_it_allows_it(first: str) -> None:
    cluster = FeedCluster()
    if first == "limits":
        cluster.limits(MAX_TWO)
    cluster.workload({"cpu": "3"})
    cluster.limits(MAX_TWO)
    told = cluster.decision()
    assert isinstance(told, Wait)
    assert told.reason == "Misconfigured"
    assert told.message == (
        "resources didn't satisfy LimitRange constraints: spec.podSets[0].template.spec.containers[0]: "
        'Invalid value: ["cpu"]: requests must not be above the limitRange max'
    )
    cluster.limits([{"type": "Container", "max": {"cpu": "4"}}])
    assert isinstance(cluster.decision(), Admit)


def test_limits_of_other_namespaces_do_not_count() -> None:
    cluster = FeedCluster()
    cluster.limits(MAX_TWO, "elsewhere")
    cluster.workload({"cpu": "3"})
    assert isinstance(cluster.decision(), Admit)


DEFAULTS = [{"type": "Container", "default": {"cpu": "4"}, "defaultRequest": {"cpu": "3"}}]


@pytest.mark.parametrize(
    ("limits", "requests", "bounds", "runtime", "cpu"),
    [
        pytest.param(DEFAULTS, {}, {}, "", 3000, id="default-request"),
        pytest.param(DEFAULTS[:0], {"cpu": "1"}, {}, "kata", 1250, id="overhead"),
        pytest.param(DEFAULTS, {}, {}, "kata", 3250, id="both"),
        pytest.param(DEFAULTS, {"cpu": "1"}, {}, "", 1000, id="own-request"),
        pytest.param(DEFAULTS, {}, {"cpu": "2"}, "", 2000, id="own-limit-stands-for-the-request"),
        pytest.param([{"type": "Container", "default": {"cpu": "2"}}], {}, {}, "", 2000, id="default-limit"),
        pytest.param(
            [{"type": "Pod", "default": {"cpu": "2"}}], {"cpu": "1"}, {}, "", 1000, id="nothing-of-containers"
        ),
    ],
)
@pytest.mark.parametrize("first", ["around", "workload"])
def test_what_the_api_server_gives_the_pods_counts(
    limits: list[dict[str, Any]], requests: dict[str, str], bounds: dict[str, str], runtime: str, cpu: int, first: str
) -> None:
    """Overhead of the RuntimeClass, defaults of LimitRanges; whichever is seen first."""
    cluster = FeedCluster()
    more = {"runtimeClassName": runtime} if runtime else {}
    if first == "workload":
        cluster.workload(requests, bounds, **more)
    cluster.add(
        RUNTIME_CLASSES, {"metadata": {"name": "kata"}, "handler": "k", "overhead": {"podFixed": {"cpu": "250m"}}}
    )
    cluster.limits(limits)
    if first == "around":
        cluster.workload(requests, bounds, **more)
    told = cluster.decision()
    assert isinstance(told, Admit)
    assert told.admission.usage() == {("any", "cpu"): cpu}


def test_a_request_above_the_default_limit_waits() -> None:
    """Its pods would be refused."""
    cluster = FeedCluster()
    cluster.limits([{"type": "Container", "default": {"cpu": "2"}}])
    cluster.workload({"cpu": "3"})
    told = cluster.decision()
    assert isinstance(told, Wait)
    assert told.message.endswith("requests must not exceed its limits")


def test_quota_counts_by_the_rules() -> None:
    rate = Transformation("cpu", {"credits": Fraction(2, 1000)}, retain=False)
    cluster = FeedCluster(ResourceRules(("net.",), (rate,)))
    cluster.workload({"cpu": "3", "net.example.com/vf": "1"})
    told = cluster.decision()
    assert isinstance(told, Admit)
    assert told.admission.usage() == {("any", "credits"): 6}
