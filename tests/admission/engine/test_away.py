"""Nodes without workloads that will have left are those from which each of them was removed alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from admission.engine.ledger.ledger import Ledger
from admission.engine.model import BoundPod, ObjectRemoved, RemovedKind
from tests.admission.engine.builders import CPU, host
from tests.admission.engine.dump import dump
from tests.admission.engine.preemption.drawn_clusters import DrawnCluster, scenes
from tests.budgets import examples

some = settings(
    max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
HOSTS = [f"h{number}" for number in range(6)]


def removed_one_by_one(ledger: Ledger, keys: frozenset[str]) -> Any:
    """The nodes of the trees when each of these workloads was removed by itself."""
    with ledger.trial():
        for key in sorted(keys & ledger.admissions.keys()):
            ledger.simulate_removal(key)
        return dump(ledger)["trees"]


def changed(scene: DrawnCluster, data: st.DataObject) -> None:
    """Something happens to a workload or to a node."""
    ledger, running = scene.ledger, {workload.key: workload for workload in scene.running}
    key, name = data.draw(st.sampled_from(sorted(running))), data.draw(st.sampled_from(HOSTS))
    workload = ledger.workload(key)
    match data.draw(st.sampled_from(["end", "start", "grow", "node", "no node", "pod", "no pod", "try"])):
        case "end":
            ledger.apply(ObjectRemoved(RemovedKind.WORKLOAD, key))
        case "start" if workload is None:
            ledger.apply(running[key])
        case "grow" if workload is not None:
            larger = [replace(pods, requests={"cpu": 2 * pods.requests["cpu"]}) for pods in workload.pod_sets]
            ledger.apply(replace(workload, pod_sets=tuple(larger)))
        case "node":
            ledger.apply(host(name, f"r{data.draw(st.integers(0, 3))}", data.draw(st.integers(2, 4))))
        case "no node":
            ledger.apply(ObjectRemoved(RemovedKind.NODE, name))
        case "pod":
            ledger.apply(BoundPod(f"{key}-more", name, {"cpu": data.draw(st.integers(1, 3)) * CPU}, key))
        case "no pod":
            ledger.apply(ObjectRemoved(RemovedKind.POD, f"{key}-more"))
        case "try":
            with ledger.trial():
                ledger.release(key)
                with ledger.away(frozenset(running)):
                    nodes = dump(ledger)["trees"]
                assert nodes == removed_one_by_one(ledger, frozenset(running))


@some
@given(scenes(), st.data())
def test_whatever_happened_before_nodes_are_those_without_each_workload(
    scene: DrawnCluster, data: st.DataObject
) -> None:
    ledger, keys = scene.ledger, frozenset[str]()
    running = [workload.key for workload in scene.running]
    for _ in range(data.draw(st.integers(1, 6))):
        keys = data.draw(st.sampled_from([keys, frozenset[str]()])) | data.draw(st.frozensets(st.sampled_from(running)))
        before = dump(ledger)
        with ledger.away(keys):
            nodes = dump(ledger)["trees"]
        assert dump(ledger) == before
        assert nodes == removed_one_by_one(ledger, keys)
        changed(scene, data)
