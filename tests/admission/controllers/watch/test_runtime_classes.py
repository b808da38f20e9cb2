"""What a RuntimeClass gives the pods of a job decides which nodes take them."""

from __future__ import annotations

from typing import Any

import pytest

from admission.engine.decision import Admit, Wait
from admission.engine.queue.notices import NotEvaluated
from api.kube.resources import NODES, RESOURCE_FLAVORS, RUNTIME_CLASSES
from api.names import HOSTNAME_LABEL
from tests.admission.controllers.watch.test_feed_resources import FeedCluster

TAINT = {"key": "kata", "value": "yes", "effect": "NoSchedule"}
TOLERATION = {"key": "kata", "operator": "Exists"}


class RuntimeCluster(FeedCluster):
    """Node a is plain, node b runs kata and keeps others off."""

    def __init__(self) -> None:
        super().__init__()
        self.add(RESOURCE_FLAVORS, {"metadata": {"name": "any"}, "spec": {"topology": {"levels": [HOSTNAME_LABEL]}}})
        for name, labels, taints in (("a", {}, []), ("b", {"runtime": "kata"}, [TAINT])):
            meta = {"name": name, "labels": {HOSTNAME_LABEL: name, **labels}}
            status = {"allocatable": {"cpu": "4", "pods": "10"}, "conditions": [{"type": "Ready", "status": "True"}]}
            self.add(NODES, {"metadata": meta, "spec": {"taints": taints}, "status": status})

    def runtime(self, selector: dict[str, str] | None = None, tolerations: list[dict[str, str]] | None = None) -> None:
        scheduling = {"nodeSelector": selector or {}, "tolerations": tolerations or []}
        self.add(RUNTIME_CLASSES, {"metadata": {"name": "kata"}, "handler": "kata", "scheduling": scheduling})

    def told(self) -> Any:
        """The decision on the workload, else why it was not considered."""
        report = self.world.cycle()
        found: list[Any] = [*report.decisions, *report.notices]
        return found[0]


def host_of(decision: Admit) -> str:
    [pod_set] = decision.admission.pod_sets
    assert pod_set.assignment is not None
    return pod_set.assignment.domains[0].values[-1]


@pytest.mark.parametrize("first", ["class", "workload"])
def test_selector_and_tolerations_of_the_class_decide_where_pods_go(first: str) -> None:
    cluster = RuntimeCluster()
    if first == "workload":
        cluster.workload({"cpu": "1"}, runtimeClassName="kata")
    cluster.runtime({"runtime": "kata"}, [TOLERATION])
    if first == "class":
        cluster.workload({"cpu": "1"}, runtimeClassName="kata")
    told = cluster.told()
    assert isinstance(told, Admit)
    assert host_of(told) == "b"


def test_without_its_tolerations_no_node_takes_the_pod() -> None:
    cluster = RuntimeCluster()
    cluster.runtime({"runtime": "kata"})
    cluster.workload({"cpu": "1"}, runtimeClassName="kata")
    told = cluster.told()
    assert isinstance(told, Wait)
    assert 'taint "kata=yes:NoSchedule": 1' in told.message
    cluster.runtime({"runtime": "kata"}, [TOLERATION])
    assert isinstance(cluster.told(), Admit), "a change of the class is seen"


def test_a_missing_class_holds_the_workload_and_says_so() -> None:
    cluster = RuntimeCluster()
    cluster.workload({"cpu": "1"}, runtimeClassName="kata")
    told = cluster.told()
    assert isinstance(told, NotEvaluated)
    assert (told.reason, told.message) == (
        "WaitingForObjects",
        'spec.podSets[0].template.spec.runtimeClassName: RuntimeClass "kata" does not exist: its pods would be refused',
    )


def test_a_class_that_contradicts_the_pods_holds_the_workload_and_says_so() -> None:
    cluster = RuntimeCluster()
    cluster.runtime({"runtime": "kata"}, [TOLERATION])
    cluster.workload({"cpu": "1"}, runtimeClassName="kata", nodeSelector={"runtime": "runc"})
    told = cluster.told()
    assert isinstance(told, NotEvaluated)
    assert (told.reason, told.message) == (
        "Misconfigured",
        "spec.podSets[0].template.spec: the pods would be refused: "
        'nodeSelector[runtime] is "runc", RuntimeClass kata requires "kata"',
    )


def test_a_class_without_scheduling_changes_nothing() -> None:
    cluster = RuntimeCluster()
    cluster.add(RUNTIME_CLASSES, {"metadata": {"name": "kata"}, "handler": "kata"})
    cluster.workload({"cpu": "1"}, runtimeClassName="kata")
    told = cluster.told()
    assert isinstance(told, Admit)
    assert host_of(told) == "a"


@pytest.mark.parametrize("source", ["overhead", "default-request"])
def test_what_the_api_server_adds_to_requests_counts_once_the_workload_has_quota(source: str) -> None:
    """A pod that requests one CPU gets three: a second one of two CPUs has no room beside it."""
    cluster = RuntimeCluster()
    requests = {"cpu": "1"} if source == "overhead" else {}
    if source == "overhead":
        cluster.add(
            RUNTIME_CLASSES, {"metadata": {"name": "kata"}, "handler": "k", "overhead": {"podFixed": {"cpu": "2"}}}
        )
    else:
        cluster.limits([{"type": "Container", "defaultRequest": {"cpu": "3"}}])
    more: dict[str, Any] = {"runtimeClassName": "kata"} if source == "overhead" else {}
    cluster.workload(requests, nodeSelector={HOSTNAME_LABEL: "a"}, **more)
    told = cluster.told()
    assert isinstance(told, Admit)
    cluster.admit(told, requests, nodeSelector={HOSTNAME_LABEL: "a"}, **more)
    cluster.workload({"cpu": "2"}, name="next", nodeSelector={HOSTNAME_LABEL: "a"})
    told = cluster.told()
    assert isinstance(told, Wait)
    assert 'resource "cpu": 1' in told.message


def test_queues_without_topology_are_held_as_well() -> None:
    cluster = FeedCluster()
    cluster.workload({"cpu": "1"}, runtimeClassName="kata")
    assert cluster.world.cycle().decisions == ()
