"""What the ledger counts: an evicted workload until its pods have left, the pods of an elastic job for its current slice."""

from __future__ import annotations

from typing import Any

import pytest

from admission.engine.decision import Admit
from api.kube.resources import NAMESPACES, WORKLOADS
from api.meta import parse_time
from api.names import REPLACEMENT_FOR, WORKLOAD_SLICE_NAME
from tests.admission.controllers.full_node import EVICTED, RELEASED, FullNode
from tests.builders import condition, workload


def test_the_preemptor_starts_when_the_last_pod_has_left() -> None:
    cluster = FullNode()
    cluster.high()
    assert cluster.decisions() == [("Preempt", "ns/high")]
    cluster.low(EVICTED)
    cluster.low(RELEASED)
    assert cluster.decisions() == [], "its pods still hold the node"
    for n in range(3):
        cluster.pod(n, "Failed")
    assert cluster.decisions() == []
    cluster.pod(3, "Failed")
    assert cluster.decisions() == [("Admit", "ns/high"), ("Wait", "ns/low")]


def test_pods_on_a_node_that_does_not_answer_are_not_waited_for() -> None:
    cluster = FullNode()
    cluster.low(EVICTED)
    cluster.low(RELEASED)
    assert cluster.world.ledger.admission("ns/low") is not None
    cluster.node(False)
    assert cluster.world.ledger.admission("ns/low") is None
    assert "ns/low" in cluster.world.queues


@pytest.mark.parametrize("states", [RELEASED, [condition("Finished")]], ids=["given back by itself", "finished"])
def test_without_an_eviction_it_is_gone_at_once(states: list[dict[str, Any]]) -> None:
    cluster = FullNode()
    cluster.low(states)
    assert cluster.world.ledger.admission("ns/low") is None


@pytest.mark.parametrize("admits", [True, False], ids=["labels that the queue admits", "labels that it does not"])
def test_labels_of_a_namespace_decide_on_waiting_workloads_and_leave_running_ones(admits: bool) -> None:
    cluster = FullNode({"matchLabels": {"tier": "one"}})
    cluster.high()
    assert cluster.decisions() == [], "the namespace has no label yet"
    cluster.add(NAMESPACES, {"metadata": {"name": "ns", "labels": {"tier": "one" if admits else "two"}}})
    assert cluster.decisions() == ([("Preempt", "ns/high")] if admits else [])
    assert cluster.world.ledger.admissions.keys() == {"ns/low"}
    assert cluster.world.ledger.audit() == []


JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "job", "controller": True}


@pytest.mark.parametrize("held", [True, False], ids=["while its admission is written", "after it was admitted"])
def test_the_pods_of_a_growing_job_count_for_its_older_slice_again_where_the_newer_one_is_deleted(held: bool) -> None:
    """The cycle counts them for the newer slice as soon as it is admitted."""
    cluster = FullNode()
    old = workload("low", count=4, domains=[(("n1",), 4)], metadata={"ownerReferences": [JOB]})
    cluster.add(WORKLOADS, old.to_wire())
    meta = {"ownerReferences": [JOB], "annotations": {REPLACEMENT_FOR: "ns/low", WORKLOAD_SLICE_NAME: "low"}}
    cluster.node(True, cpus=8)
    cluster.add(WORKLOADS, workload("new", count=6, metadata=meta).to_wire())
    feed, ledger = cluster.objects.feed, cluster.world.ledger
    [decision] = cluster.world.cycle().decisions
    assert isinstance(decision, Admit)
    assert len(ledger.allocations.pods_of("ns/new")) == 4
    feed.hold("ns/new")
    if not held:
        cluster.add(WORKLOADS, workload("new", count=6, domains=[(("n1",), 6)], metadata=meta).to_wire())
        feed.let_go("ns/new")
    cluster.add(WORKLOADS, old.to_wire())
    cluster.objects._stores[WORKLOADS].delete(cluster.objects.view.workloads.objects["ns/new"])
    if held:
        feed.let_go("ns/new")
    assert ledger.admissions.keys() == {"ns/low"}
    assert len(ledger.allocations.pods_of("ns/low")) == 4
    assert ledger.audit() == []


@pytest.mark.parametrize("first_is_there", [True, False])
@pytest.mark.parametrize("uid", ["job", "another"])
def test_a_job_that_grows_stays_as_old_as_its_first_slice(uid: str, first_is_there: bool) -> None:
    """A younger one could be evicted for growing. Finished slices are deleted later; those of other jobs do not count."""
    cluster, times = FullNode(), ["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"]
    owned = {"ownerReferences": [JOB], "creationTimestamp": times[0]}
    first = workload("low", count=4, domains=[(("n1",), 4)], metadata=owned)
    cluster.add(WORKLOADS, first.to_wire())
    annotations = {REPLACEMENT_FOR: "ns/low", WORKLOAD_SLICE_NAME: "low"}
    meta = {
        **owned,
        "ownerReferences": [{**JOB, "uid": uid}],
        "creationTimestamp": times[1],
        "annotations": annotations,
    }
    waiting = workload("new", count=6, metadata=meta)
    cluster.add(WORKLOADS, waiting.to_wire())
    running = workload("new", count=6, domains=[(("n1",), 6)], metadata=meta)
    cluster.add(WORKLOADS, running.to_wire())
    if not first_is_there:
        cluster.objects._stores[WORKLOADS].delete(cluster.objects.view.workloads.objects["ns/low"])
        cluster.add(WORKLOADS, running.to_wire())
    found = cluster.world.ledger.workload("ns/new")
    assert found is not None
    assert found.queued == parse_time(times[0 if uid == "job" else 1])
