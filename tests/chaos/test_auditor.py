"""The auditor finds what is planted, and says nothing of what is right."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.auditor import SETTLING, Auditor, Labels

Obj = dict[str, Any]
RACK, GPU = "example.com/rack", "example.com/gpu"


def node(name: str, rack: str, gpus: int = 4, **spec: Any) -> Obj:
    labels = {RACK: rack, "kubernetes.io/hostname": name}
    conditions = [{"type": "Ready", "status": "True"}]
    status = {"allocatable": {GPU: str(gpus)}, "conditions": conditions}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}


def template(gpus: int) -> Obj:
    return {"spec": {"containers": [{"name": "main", "resources": {"requests": {GPU: str(gpus)}}}]}}


def pod(name: str, host: str, gpus: int = 4, of: str = "gang", phase: str = "Running") -> Obj:
    metadata = {"name": name, "namespace": "ns", "annotations": {"kueue.x-k8s.io/workload": of} if of else {}}
    return {"metadata": metadata, "spec": {**template(gpus)["spec"], "nodeName": host}, "status": {"phase": phase}}


def assigned(places: Mapping[str, int]) -> Obj:
    part = {
        "domainCount": len(places),
        "valuesPerLevel": [{"individual": {"prefix": "h", "roots": [host[1:] for host in places]}}],
        "podCounts": {"individual": list(places.values())},
    }
    return {"levels": ["kubernetes.io/hostname"], "slices": [part]}


def gang(
    places: Mapping[str, int], gpus: int = 4, name: str = "gang", required: str | None = RACK, **status: Any
) -> Obj:
    """A Workload with these places; one that waits where there are none."""
    count = sum(places.values()) or 2
    pod_set = {"name": "main", "count": count, "template": template(gpus), "topologyRequest": {"required": required}}
    admission = {"podSetAssignments": [{"name": "main", "topologyAssignment": assigned(places)}]}
    conditions = [{"type": "QuotaReserved", "status": "True" if places else "False", "reason": "R", "message": "told"}]
    told = {"conditions": conditions, **({"admission": admission} if places else {}), **status}
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": {"podSets": [pod_set]}, "status": told}


def audited(*seen: tuple[str, Obj], at: float = 100.0) -> Auditor:
    """Three hosts, two in one rack, and these objects."""
    auditor = Auditor(Labels((RACK,), GPU))
    for host, rack in (("h1", "r1"), ("h2", "r1"), ("h3", "r2")):
        auditor.see("Node", node(host, rack), 0.0)
    for kind, obj in seen:
        auditor.see(kind, obj, at)
    auditor.sample(at)
    return auditor


RIGHT = gang({"h1": 1, "h2": 1})
PLANTED: dict[str, tuple[list[tuple[str, Obj]], list[str]]] = {
    "a full host": ([("Pod", pod("a", "h1"))], []),
    "two pods for one place": ([("Pod", pod("a", "h1", 3)), ("Pod", pod("b", "h1", 2))], ["host h1: 5 of 4 bound"]),
    "one of them has ended": ([("Pod", pod("a", "h1", 3, phase="Failed")), ("Pod", pod("b", "h1", 2))], []),
    "a pod from elsewhere": (
        [("Pod", pod("a", "h1", 3, of="")), ("Pod", pod("b", "h1", 2))],
        ["host h1: 5 of 4 bound"],
    ),
    "two gangs, one place": (
        [("Workload", RIGHT), ("Workload", gang({"h1": 1}, 1, "other"))],
        ["host h1: 5 of 4 promised"],
    ),
    "one of them has finished": (
        [
            ("Workload", RIGHT),
            ("Workload", gang({"h1": 1}, 1, "other", conditions=[{"type": "Finished", "status": "True"}])),
        ],
        [],
    ),
    "one rack": ([("Workload", RIGHT), ("Pod", pod("a", "h1")), ("Pod", pod("b", "h2"))], []),
    "assigned to two racks": (
        [("Workload", gang({"h1": 1, "h3": 1}))],
        ["gang ns/gang is assigned to h1 (r1), h3 (r2)"],
    ),
    "two racks where none is required": ([("Workload", gang({"h1": 1, "h3": 1}, required=None))], []),
    "pods where the assignment has none": (
        [("Workload", RIGHT), ("Pod", pod("a", "h1")), ("Pod", pod("b", "h3"))],
        ["gang ns/gang has pods on h1 (r1), h3 (r2)"],
    ),
}


@pytest.mark.parametrize(("seen", "want"), PLANTED.values(), ids=PLANTED)
def test_what_is_planted_is_found(seen: list[tuple[str, Obj]], want: list[str]) -> None:
    assert audited(*seen).findings == want


def test_a_pod_on_a_node_that_is_gone_does_not_run() -> None:
    auditor = audited(("Workload", RIGHT), ("Pod", pod("a", "h1")), ("Pod", pod("b", "h9")))
    assert auditor.findings == []
    auditor.see("Node", node("h9", "r9"), 101.0)
    auditor.sample(101.0)
    assert auditor.findings == ["gang ns/gang has pods on h1 (r1), h9 (r9)"]
    assert [line.split(" ", 1)[1] for line in auditor.stories[auditor.findings[0]]] == [
        "holds {'main': {'h1': 1, 'h2': 1}}",
        "pod a on h1 Running",
        "pod b on h9 Running",
    ]


def test_a_finding_is_told_once() -> None:
    auditor = audited(("Pod", pod("a", "h1", 5)))
    auditor.sample(101.0)
    assert auditor.findings == ["host h1: 5 of 4 bound"]


def test_a_host_counts_in_the_rack_that_it_was_in_at_the_admission() -> None:
    auditor = audited(("Workload", RIGHT), ("Pod", pod("a", "h1")), ("Pod", pod("b", "h2")))
    auditor.see("Node", node("h2", "r2"), 101.0)
    auditor.see("Workload", RIGHT, 200.0)
    auditor.sample(200.0)
    assert auditor.findings == []
    auditor.see("Workload", gang({"h1": 1, "h2": 1}, name="later"), 200.0)
    auditor.see("Workload", RIGHT, 200.0, gone=True)
    auditor.sample(200.0)
    assert auditor.findings == ["gang ns/later is assigned to h1 (r1), h2 (r2)"]


def test_a_gang_that_got_another_host_may_be_in_one_rack_by_the_labels_of_then() -> None:
    auditor = audited(("Workload", RIGHT), ("Pod", pod("a", "h2")))
    auditor.see("Node", node("h2", "r2"), 101.0)
    auditor.see("Workload", gang({"h2": 1, "h3": 1}), 200.0)
    auditor.see("Pod", pod("b", "h3"), 200.0)
    auditor.sample(200.0)
    assert auditor.findings == []
    auditor.see("Workload", gang({"h1": 1, "h2": 1, "h3": 1}), 200.0)
    auditor.sample(200.0)
    assert auditor.findings == ["gang ns/gang is assigned to h1 (r1), h2 (r1), h3 (r2)"]


@pytest.mark.parametrize(("late", "expected"), [(SETTLING - 1, 0), (SETTLING + 1, 1)], ids=["just now", "long ago"])
def test_an_assignment_that_is_seen_late_may_go_by_older_labels(late: float, expected: int) -> None:
    auditor = audited()
    auditor.see("Node", node("h2", "r2"), 100.0)
    auditor.see("Workload", RIGHT, 100.0 + late)
    auditor.sample(100.0 + late)
    assert len(auditor.findings) == expected


def queued(reserved: int) -> list[tuple[str, Obj]]:
    """The gang's queues, of which the ClusterQueue says that so much is reserved."""
    local = {"metadata": {"name": "lq", "namespace": "ns"}, "spec": {"clusterQueue": "cq"}}
    resources = [{"name": GPU, "total": str(reserved)}]
    status = {"flavorsReservation": [{"name": "flavor", "resources": resources}]}
    workload = {**RIGHT, "spec": {**RIGHT["spec"], "queueName": "lq"}}
    return [
        ("LocalQueue", local),
        ("ClusterQueue", {"metadata": {"name": "cq"}, "status": status}),
        ("Workload", workload),
    ]


CHARGED: dict[str, tuple[int, list[tuple[str, Obj]], list[str]]] = {
    "all of it": (8, [("Pod", pod("a", "h1")), ("Pod", pod("b", "h2"))], []),
    "more than runs": (8, [("Pod", pod("a", "h1"))], []),
    "less than runs": (
        4,
        [("Pod", pod("a", "h1")), ("Pod", pod("b", "h2"))],
        ["queue cq: bound pods use 8, 4 charged"],
    ),
    "pods that ended": (0, [("Pod", pod("a", "h1", phase="Failed"))], []),
}


@pytest.mark.parametrize(("reserved", "pods", "want"), CHARGED.values(), ids=CHARGED)
@pytest.mark.parametrize("gone", [False, True], ids=["with its Workload", "whose Workload is gone"])
def test_what_runs_is_what_is_charged(reserved: int, pods: list[tuple[str, Obj]], want: list[str], gone: bool) -> None:
    auditor = audited(*queued(reserved), *pods)
    if gone:
        auditor.see("Workload", RIGHT, 100.0, gone=True)
    assert auditor.findings == [], "the status may be on its way"
    auditor.sample(101.0 + SETTLING)
    assert auditor.findings == want


ENDS: dict[str, tuple[list[tuple[str, Obj]], list[str]]] = {
    "runs whole": ([("Workload", RIGHT), ("Pod", pod("a", "h1")), ("Pod", pod("b", "h2"))], []),
    "half of it runs": ([("Workload", RIGHT), ("Pod", pod("a", "h1"))], ["gang ns/gang: 1 of 2 pods run"]),
    "waits though a rack has room": ([("Workload", gang({}))], ["gang ns/gang: waits (told), but r1 has room"]),
    "waits, and no rack has room": ([("Workload", gang({})), ("Pod", pod("a", "h1", of=""))], []),
    "waits, and a host is cordoned": ([("Node", node("h1", "r1", unschedulable=True)), ("Workload", gang({}))], []),
    "waits without a word": (
        [("Workload", gang({}, conditions=[])), ("Pod", pod("a", "h1", of=""))],
        ["gang ns/gang: waits without a reason: None"],
    ),
}


@pytest.mark.parametrize(("seen", "want"), ENDS.values(), ids=ENDS)
def test_each_gang_runs_whole_or_waits_for_a_true_reason(seen: list[tuple[str, Obj]], want: list[str]) -> None:
    assert audited(*seen).unfinished() == want


def test_it_shares_no_code_with_the_product() -> None:
    here = Path(__file__).parent
    for name in ("auditor.py", "watch.py"):
        tree = ast.parse((here / name).read_text())
        modules = [each.module or "" for each in ast.walk(tree) if isinstance(each, ast.ImportFrom)]
        modules += [alias.name for each in ast.walk(tree) if isinstance(each, ast.Import) for alias in each.names]
        assert not [m for m in modules if m.split(".")[0] in ("api", "admission", "ungater")], name
