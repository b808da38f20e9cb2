"""elastic_tas: which pod sets get a place in which flavor, and how many pods of a workload start if not all must."""

from __future__ import annotations

from typing import Any

import pytest

from admission.engine.convert import convert_queues
from admission.engine.convert import convert_workloads as convert
from admission.engine.cycle.nominate import Nominator
from admission.engine.flavors.assign import Mode, NoPreemption
from admission.engine.flavors.search import FlavorSearch
from admission.engine.journal import Journal
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Workload as EngineWorkload
from admission.engine.quota.tree import QuotaTree
from api.queues import ClusterQueue
from api.topology import ResourceFlavor, Topology
from api.workloads import Workload

Json = dict[str, Any]

OUTSIDE = {
    "preferred topology is rejected": "an elastic job may prefer a level here",
    "no TAS flavor assigned": "the flavor of the case has a topology, and in Kueue's test it has none",
    "TestAssignment_ComputeTASNetUsage": "a replaced slice and the next one never count together here: the later one alone",
}
_UNLIMITED = "1Pi"


def run(case: Json) -> None:
    """By the Go test that the case is of."""
    for part, reason in OUTSIDE.items():
        if part in case["name"]:
            pytest.skip(reason)
    if case["name"].startswith("TestSearch"):
        _fewer(case)
    else:
        _requested(case)


def _fewer(case: Json) -> None:
    """Each pod takes one of the quota's `countLimit`; a search starts where not all pods fit."""
    given, want = case["input"], case["want"]
    ledger = Ledger()
    flavor = ResourceFlavor.from_wire({"metadata": {"name": "default"}, "spec": {}})
    ledger.apply(convert_queues.flavor(flavor, None))
    queue = convert_queues.cluster_queue(_queue({"pods": "default"}, str(given.get("countLimit", 0))))
    ledger.apply(queue)
    workload = _workload(given.get("podSets") or [])
    found = Nominator(ledger, NoPreemption(ledger.quota), 0.0).fewer(workload, queue)
    assert (found is not None) == want["wantFound"]
    assert (0 if found is None else sum(pod_set.count for pod_set in found.workload.pod_sets)) == want["wantCount"]


def _requested(case: Json) -> None:
    given, want = case["input"], case["want"]
    flavors = {name for assigned in given["podSetAssignments"] for name in assigned["flavors"].values()}
    with_topology = given.get("tasFlavors") or []
    by_name = {name: _flavor(name, topology=name in with_topology) for name in sorted(flavors)}
    queue = convert_queues.cluster_queue(_queue(given["podSetAssignments"][0]["flavors"], _UNLIMITED))
    quota = QuotaTree(Journal())
    quota.set_queue(queue)
    counts = {assigned["name"]: assigned["count"] for assigned in given["podSetAssignments"]}
    workload = _workload([{**p, "count": counts[p["name"]]} for p in given["workload"]["spec"]["podSets"]])
    found = FlavorSearch(queue, by_name, quota, NoPreemption(quota)).assign(workload)
    if error := want.get("wantErr"):
        assert (found.pod_sets[0].error, found.mode) == (error["error"], Mode.NO_FIT)
        return
    assert [pod_set.error for pod_set in found.pod_sets if pod_set.error] == []
    placed = {pod_set.name for pod_set in found.pod_sets if pod_set.topology is not None}
    assert placed == set(want.get("wantTASPodSets", list(counts)) or ())


def _flavor(name: str, *, topology: bool) -> Any:
    levels = {"metadata": {"name": "t"}, "spec": {"levels": [{"nodeLabel": "kubernetes.io/hostname"}]}}
    spec = {"topologyName": "t", "nodeLabels": {"pool": name}} if topology else {}
    flavor = ResourceFlavor.from_wire({"metadata": {"name": name}, "spec": spec})
    return convert_queues.flavor(flavor, Topology.from_wire(levels) if topology else None)


def _queue(flavors: Json, nominal: str) -> ClusterQueue:
    groups = [
        {
            "coveredResources": [resource],
            "flavors": [{"name": name, "resources": [{"name": resource, "nominalQuota": nominal}]}],
        }
        for resource, name in flavors.items()
    ]
    return ClusterQueue.from_wire(
        {"metadata": {"name": "q"}, "spec": {"namespaceSelector": {}, "resourceGroups": groups}}
    )


def _workload(pod_sets: list[Json]) -> EngineWorkload:
    wire = {"metadata": {"name": "w", "namespace": "ns"}, "spec": {"podSets": pod_sets}}
    return convert.workload(Workload.from_wire(wire), cluster_queue="q")
