"""Devices that pods ask for by ResourceClaimTemplates are counted, node by node."""

from __future__ import annotations

from typing import Any

import pytest

from admission.controllers.watch.devices.counted_kinds import MOST_KINDS, MOST_OF_NAMESPACE, CountedKinds
from admission.controllers.watch.devices.requests import DeviceKind
from admission.engine.decision import Admit, Wait
from admission.engine.queue.notices import NotEvaluated
from api.kube.resources import (
    DEVICE_CLASSES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_SLICES,
    WORKLOADS,
)
from api.names import HOSTNAME_LABEL
from tests.admission.controllers.watch.devices.test_counting import (
    IS_GPU,
    IS_H100,
    device,
    device_class,
    node_slice,
    template,
)
from tests.admission.controllers.watch.volumes.test_view import VolumeCluster

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

    def asks(self, count: int, name: str = "w", claims: Any = ONE, namespace: str = "ns", **status: Any) -> None:
        spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}], "resourceClaims": claims}
        pod_set = {"name": "main", "count": count, "template": {"spec": spec}}
        meta = {"name": name, "namespace": namespace, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
        spec = {"queueName": "lq", "podSets": [pod_set]}
        self.add(WORKLOADS, {"metadata": meta, "spec": spec, "status": status})

    def asks_for_kind(self, number: int, namespace: str = "ns", *, there: str = IS_GPU, **status: Any) -> None:
        """A Workload that requests devices by a selector that no other has."""
        selector = {"cel": {"expression": f"{there} && {number} == {number}"}}
        made = template(f"kind-{number}", selectors=[selector])
        self.add(RESOURCE_CLAIM_TEMPLATES, {**made, "metadata": {**made["metadata"], "namespace": namespace}})
        claims = [{"name": "gpu", "resourceClaimTemplateName": f"kind-{number}"}]
        self.asks(1, f"w{number}", claims, namespace, **status)

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


FINISHED = [{"type": "Finished", "status": "True", "reason": "Succeeded", "message": ""}]


def refused(cluster: DeviceCluster, number: int, namespace: str = "ns") -> str:
    """Why it is unknown which nodes have the devices of `asks_for_kind`; empty if it is known."""
    workload = cluster.objects.view.workloads.objects[f"{namespace}/w{number}"]
    found = cluster.objects.view.features.refusal(workload)
    return found[1] if found else ""


def test_a_namespace_with_many_kinds_leaves_places_for_others() -> None:
    """One user's selectors must not keep the devices of everybody else from being counted."""
    cluster = DeviceCluster()
    for number in range(MOST_KINDS):
        cluster.asks_for_kind(number)
    assert f"more than {MOST_OF_NAMESPACE} kinds of devices are asked for in namespace ns" in refused(
        cluster, MOST_KINDS - 1
    )
    cluster.asks_for_kind(1000, "other")
    assert not refused(cluster, 1000, "other")


def test_there_is_a_bound_for_all_namespaces() -> None:
    cluster = DeviceCluster()
    for number in range(MOST_KINDS + 1):
        cluster.asks_for_kind(number, f"ns-{number // MOST_OF_NAMESPACE}", there="false")
    assert not refused(cluster, MOST_KINDS - 1, f"ns-{(MOST_KINDS - 1) // MOST_OF_NAMESPACE}")
    assert f"more than {MOST_KINDS} kinds" in refused(cluster, MOST_KINDS, f"ns-{MOST_KINDS // MOST_OF_NAMESPACE}")


def test_kinds_without_users_give_their_places_up() -> None:
    """After 64 kinds in its whole life a process counted no other one."""
    cluster = DeviceCluster()
    for number in range(3 * MOST_KINDS):
        cluster.asks_for_kind(number)
        assert not refused(cluster, number)
        cluster.asks_for_kind(number, conditions=FINISHED)
    cluster.asks(4)
    assert places(cluster.told()) == {"a": 2, "b": 2}


def test_the_end_of_a_workload_lets_one_with_another_kind_in() -> None:
    cluster = DeviceCluster()
    for number in range(MOST_OF_NAMESPACE):
        cluster.asks_for_kind(number)
    while not isinstance(cluster.told(), Wait):
        pass
    cluster.asks_for_kind(99)
    assert "more than" in cluster.says()
    for number in range(MOST_OF_NAMESPACE):
        cluster.objects._stores[WORKLOADS].delete_key(f"ns/w{number}")
    assert places(cluster.told())


def test_the_end_of_a_pod_lets_one_with_another_kind_in() -> None:
    """The pods may end after their Workload, and have their devices until then."""
    cluster = DeviceCluster()
    for number in range(MOST_OF_NAMESPACE):
        cluster.asks_for_kind(number)
    claims = [{"name": "gpu", "resourceClaimTemplateName": "kind-0"}]
    meta, spec = {"name": "p", "namespace": "ns"}, {"nodeName": "a", "containers": [], "resourceClaims": claims}
    cluster.add(PODS, {"metadata": dict(meta), "spec": spec, "status": {"phase": "Running"}})
    cluster.asks_for_kind(0, conditions=FINISHED)
    cluster.asks_for_kind(99)
    assert "more than" in refused(cluster, 99)
    told: list[str] = []
    cluster.objects.view.features.on_amounts(lambda changed: told.extend(each.key for each in changed.workloads))
    cluster.add(PODS, {"metadata": dict(meta), "spec": spec, "status": {"phase": "Succeeded"}})
    assert "ns/w99" in told
    assert "more than" not in refused(cluster, 99)


def test_templates_of_ended_jobs_are_forgotten() -> None:
    """Each job may bring a template of its own for one kind: what is kept must not grow with the jobs that there were."""
    used = dict[str, None]()
    kinds, kind = CountedKinds(lambda _, key: key in used), DeviceKind("gpu")
    for number in range(10 * MOST_KINDS):
        used = {f"ns/job-{number}": None, f"ns/job-{number - 1}": None}
        kinds.add({f"ns/job-{number}": [kind]})
    assert len(kinds._templates[kind]["ns"]) <= MOST_KINDS + 2
    assert kind in kinds


@pytest.mark.parametrize(
    ("resource", "source"),
    [
        pytest.param("example.com/gpu", "named", id="extendedResourceName"),
        pytest.param("deviceclass.resource.kubernetes.io/gpu", "gpu", id="by the name of the class"),
        pytest.param("example.com/other", "", id="of no class"),
    ],
)
@pytest.mark.parametrize("first", ["class", "workload"])
def test_devices_by_the_name_of_an_extended_resource_are_refused_in_words_until_a_node_offers_it(
    resource: str, source: str, first: str
) -> None:
    cluster = DeviceCluster()
    backed = device_class("named", IS_GPU)
    backed["spec"]["extendedResourceName"] = "example.com/gpu"
    if first == "class":
        cluster.add(DEVICE_CLASSES, backed)
    resources = {"requests": {"cpu": "1"}, "limits": {resource: "1"}}
    pod_set = {
        "name": "main",
        "count": 1,
        "template": {"spec": {"containers": [{"name": "c", "resources": resources}]}},
    }
    meta = {"name": "w", "namespace": "ns", "uid": "w", "creationTimestamp": "2026-01-01T00:00:00Z"}
    cluster.add(WORKLOADS, {"metadata": meta, "spec": {"queueName": "lq", "podSets": [pod_set]}})
    if first == "workload":
        cluster.add(DEVICE_CLASSES, backed)
    told = cluster.told()
    if not source:
        assert not isinstance(told, NotEvaluated)
        return
    assert isinstance(told, NotEvaluated)
    assert (
        f"{told.reason}: {told.message}" == f"UnsupportedPodTerms: {resource}: no node offers it, and the devices of "
        f"DeviceClass {source} are counted for claims alone: request them by a ResourceClaimTemplate"
    )
    status = {
        "allocatable": {"cpu": "4", "pods": "10", resource: "2"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    cluster.add(NODES, {"metadata": {"name": "d", "labels": {HOSTNAME_LABEL: "d"}}, "spec": {}, "status": status})
    assert not isinstance(cluster.told(), NotEvaluated)
