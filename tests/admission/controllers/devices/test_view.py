"""Devices that pods ask for by ResourceClaimTemplates are counted, node by node."""

from __future__ import annotations

from typing import Any

import pytest

from admission.engine.decision import Admit, Wait
from api.kube.resources import (
    DEVICE_CLASSES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_SLICES,
    WORKLOADS,
)
from tests.admission.controllers.devices.test_counting import (
    IS_GPU,
    IS_H100,
    device,
    device_class,
    node_slice,
    template,
)
from tests.admission.controllers.volumes.test_view import VolumeCluster

ONE = [{"name": "gpu", "resourceClaimTemplateName": "one"}]


class DeviceCluster(VolumeCluster):
    """Nodes a and b have two GPUs each, node c has none."""

    def __init__(self, *, ready: bool = True) -> None:
        super().__init__()
        if ready:
            self.furnish()

    def furnish(self) -> None:
        self.add(RESOURCE_CLAIM_TEMPLATES, template("one"))
        self.add(DEVICE_CLASSES, device_class("gpu", IS_GPU))
        for node in "ab":
            self.add(RESOURCE_SLICES, node_slice(node, device("0"), device("1", "h100")))

    def asks(self, count: int, name: str = "w", claims: Any = ONE) -> None:
        spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}], "resourceClaims": claims}
        pod_set = {"name": "main", "count": count, "template": {"spec": spec}}
        meta = {"name": name, "namespace": "ns", "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
        self.add(WORKLOADS, {"metadata": meta, "spec": {"queueName": "lq", "podSets": [pod_set]}})

    def foreign(self, node: str, phase: str = "Running") -> None:
        spec = {"nodeName": node, "containers": [], "resourceClaims": ONE}
        self.add(
            PODS, {"metadata": {"name": f"on-{node}", "namespace": "ns"}, "spec": spec, "status": {"phase": phase}}
        )


def places(decision: Any) -> dict[str, int]:
    assert isinstance(decision, Admit)
    [pod_set] = decision.admission.pod_sets
    assert pod_set.assignment is not None
    return {domain.values[-1]: domain.count for domain in pod_set.assignment.domains}


@pytest.mark.parametrize("first", ["devices", "workload"])
def test_each_pod_gets_a_device_of_its_node(first: str) -> None:
    cluster = DeviceCluster(ready=first == "devices")
    cluster.asks(4)
    if first == "workload":
        told = "pod set main: waits for ResourceClaimTemplate one to be created"
        assert cluster.says() == f"WaitingForObjects: {told}"
        cluster.furnish()
    assert places(cluster.told()) == {"a": 2, "b": 2}
    cluster.asks(1, "next")
    waits = cluster.told()
    assert isinstance(waits, Wait)
    assert 'resource "devices of gpu": 3' in waits.message


def test_pods_from_elsewhere_keep_their_devices() -> None:
    cluster = DeviceCluster()
    cluster.foreign("a")
    cluster.asks(3)
    assert places(cluster.told()) == {"a": 1, "b": 2}
    cluster = DeviceCluster()
    cluster.foreign("a")
    cluster.asks(4)
    assert isinstance(cluster.told(), Wait)
    cluster.foreign("a", "Succeeded")
    assert places(cluster.told()) == {"a": 2, "b": 2}


def test_kinds_that_have_devices_in_common_count_together() -> None:
    cluster = DeviceCluster()
    cluster.add(RESOURCE_CLAIM_TEMPLATES, template("h100", selectors=[{"cel": {"expression": IS_H100}}]))
    h100 = [{"name": "gpu", "resourceClaimTemplateName": "h100"}]
    cluster.asks(2, "large", h100)
    assert places(cluster.told()) == {"a": 1, "b": 1}
    cluster.asks(3, "too-many")
    assert isinstance(cluster.told(), Wait)


def test_a_slice_that_comes_later_is_seen_and_one_that_goes_as_well() -> None:
    cluster = DeviceCluster()
    cluster.asks(5)
    assert isinstance(cluster.told(), Wait)
    cluster.add(RESOURCE_SLICES, node_slice("c", device("0")))
    assert places(cluster.told()) == {"a": 2, "b": 2, "c": 1}


def test_a_template_that_is_gone_still_counts_for_pods_that_have_its_devices() -> None:
    cluster = DeviceCluster()
    cluster.asks(1, "probe")
    cluster.told()
    cluster.foreign("a")
    store = cluster.objects._stores[RESOURCE_CLAIM_TEMPLATES]
    store.delete_key("ns/one")
    cluster.add(RESOURCE_CLAIM_TEMPLATES, template("two", count=2))
    cluster.asks(2, "pair", [{"name": "gpu", "resourceClaimTemplateName": "two"}])
    [decision] = cluster.world.cycle().decisions
    assert isinstance(decision, Wait)
    assert decision.workload == "ns/pair"


@pytest.mark.parametrize(
    ("claims", "says"),
    [
        pytest.param(
            [{"name": "g", "resourceClaimName": "shared"}], "ResourceClaim shared: devices of a claim", id="shared"
        ),
        pytest.param(
            [{"name": "g", "resourceClaimTemplateName": "all"}], "ResourceClaimTemplate all: request r", id="all"
        ),
    ],
)
def test_what_cannot_be_counted_holds_the_workload_and_is_named(claims: Any, says: str) -> None:
    cluster = DeviceCluster()
    cluster.add(RESOURCE_CLAIM_TEMPLATES, template("all", allocationMode="All"))
    cluster.asks(1, claims=claims)
    told = cluster.says()
    assert told.startswith("UnsupportedPodTerms: pod set main: ")
    assert says in told
