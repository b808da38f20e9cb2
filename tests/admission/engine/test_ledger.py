"""The account book: who owns a pod, what comes back when, what a trial leaves, what the audit sees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    HOSTNAME_LABEL,
    Admission,
    Assignment,
    BoundPod,
    Counting,
    DomainCount,
    Flavor,
    Node,
    ObjectRemoved,
    PlacementOptions,
    PlacementRequest,
    PodSet,
    PodSetAdmission,
    RemovedKind,
    TopologyRequest,
    Workload,
)
from admission.engine.topology.tree.tree import Tree
from tests.admission.engine.dump import dump
from tests.admission.engine.topology.vectors import shown

RACK = "rack"
GPU = {"gpu": 1}


def host(name: str, rack: str = "r1", gpu: int = 4) -> Node:
    return Node(name, {RACK: rack, HOSTNAME_LABEL: name, "pool": "a"}, {"gpu": gpu, "pods": 110})


def book(*nodes: Node, wide: bool = False, counting: Counting = Counting.NODES) -> Ledger:
    ledger = Ledger(PlacementOptions(counting=counting))
    ledger.apply(Flavor("tas", topology="default", levels=(RACK,) if wide else (RACK, HOSTNAME_LABEL)))
    for node in nodes:
        ledger.apply(node)
    return ledger


def workload(
    key: str, *domains: tuple[str, int], levels: tuple[str, ...] = (HOSTNAME_LABEL,), gpu: int = 1
) -> Workload:
    count = sum(pods for _, pods in domains)
    assignment = Assignment(levels, tuple(DomainCount((value,), pods) for value, pods in domains))
    got = PodSetAdmission("main", {"gpu": "tas"}, {"gpu": gpu * count}, count, assignment)
    pod_set = PodSet("main", count, {"gpu": gpu})
    return Workload(key, key, "ns/lq", "cq", (pod_set,), admission=Admission("cq", (got,)))


def topology(ledger: Ledger, count: int, *, gpu: int = 1, level: str = RACK, empty: bool = False) -> str:
    pod_set = PodSet("main", count, {"gpu": gpu}, topology=TopologyRequest(required=level))
    result = ledger.placement.place([PlacementRequest(pod_set, "tas", count)], simulate_empty=empty)
    return shown(result, "main")


def pod(key: str, node: str, workload: str | None = None, **more: int) -> BoundPod:
    return BoundPod(f"ns/{key}", node, {"gpu": 1, **more}, workload, "main" if workload else None)


def free(ledger: Ledger, node: str) -> int:
    """GPUs that are free on the node."""
    tree = ledger._capacity.trees["tas"]
    return tree.free_at(tree.row_of_node[node], ledger._capacity.columns.of("gpu"))


def test_an_admission_charges_capacity_and_its_end_frees_it() -> None:
    ledger = book(host("n1"), host("n2"))
    ledger.apply(workload("ns/w", ("n1", 4), ("n2", 3)))
    assert (free(ledger, "n1"), free(ledger, "n2")) == (0, 1)
    assert topology(ledger, 2) == (
        'topology "default" allows to fit only 1 out of 2 pod(s). Total nodes: 2; excluded: resource "gpu": 1'
    )
    assert topology(ledger, 8, empty=True) == "n1:4 n2:4"
    ledger.apply(ObjectRemoved(RemovedKind.WORKLOAD, "ns/w"))
    assert topology(ledger, 8) == "n1:4 n2:4"
    assert ledger.quota.usage("cq").get(("tas", "gpu"), 0) == 0


def test_a_foreign_pod_takes_its_node_until_it_is_gone() -> None:
    ledger = book(host("n1"))
    ledger.apply(pod("daemon", "n1"))
    ledger.apply(replace(pod("daemon", "n1"), requests={"gpu": 2}))
    assert free(ledger, "n1") == 2
    ledger.apply(ObjectRemoved(RemovedKind.POD, "ns/daemon"))
    assert free(ledger, "n1") == 4


def test_a_pod_known_before_its_node_counts_when_the_node_comes() -> None:
    ledger = book()
    ledger.apply(pod("daemon", "n1"))
    ledger.apply(host("n1"))
    assert free(ledger, "n1") == 3


def test_a_covered_pod_is_not_charged_again() -> None:
    ledger = book(host("n1"))
    ledger.apply(workload("ns/w", ("n1", 2)))
    for name in ("a", "b"):
        ledger.apply(pod(name, "n1", "ns/w"))
        assert free(ledger, "n1") == 2


def test_pods_beyond_the_count_are_foreign_and_move_up() -> None:
    ledger = book(host("n1"))
    ledger.apply(workload("ns/w", ("n1", 1)))
    ledger.apply(pod("a", "n1", "ns/w"))
    ledger.apply(pod("b", "n1", "ns/w"))
    assert free(ledger, "n1") == 2
    ledger.apply(ObjectRemoved(RemovedKind.POD, "ns/a"))
    assert free(ledger, "n1") == 3
    assert ledger.audit() == []


def test_a_pod_outside_its_assignment_is_foreign_there() -> None:
    ledger = book(host("n1"), host("n2"))
    ledger.apply(workload("ns/w", ("n1", 1)))
    ledger.apply(pod("a", "n2", "ns/w"))
    assert (free(ledger, "n1"), free(ledger, "n2")) == (3, 3)


def test_released_pods_hold_their_node_until_they_are_gone_and_are_covered_again() -> None:
    ledger = book(host("n1"))
    admitted = workload("ns/w", ("n1", 2))
    ledger.apply(admitted)
    ledger.apply(pod("a", "n1", "ns/w"))
    ledger.apply(replace(admitted, admission=None))
    assert free(ledger, "n1") == 3
    ledger.apply(admitted)
    assert free(ledger, "n1") == 2
    ledger.apply(replace(admitted, admission=None))
    ledger.apply(ObjectRemoved(RemovedKind.POD, "ns/a"))
    assert free(ledger, "n1") == 4
    assert ledger.audit() == []


def test_pods_bound_before_the_admission_is_known_are_covered_by_it() -> None:
    ledger = book(host("n1"))
    ledger.apply(pod("a", "n1", "ns/w"))
    ledger.apply(workload("ns/w", ("n1", 2)))
    assert free(ledger, "n1") == 2


def test_a_covered_pod_that_is_larger_than_its_pod_set_is_charged_for_the_difference() -> None:
    ledger = book(host("n1"))
    ledger.apply(workload("ns/w", ("n1", 1)))
    ledger.apply(BoundPod("ns/a", "n1", {"gpu": 3}, "ns/w", "main"))
    assert free(ledger, "n1") == 1
    ledger.apply(ObjectRemoved(RemovedKind.POD, "ns/a"))
    assert free(ledger, "n1") == 3


def test_the_same_workload_applied_twice_changes_nothing() -> None:
    ledger = book(host("n1"))
    ledger.apply(workload("ns/w", ("n1", 2)))
    before = dump(ledger)
    ledger.apply(workload("ns/w", ("n1", 2)))
    assert dump(ledger) == before


def test_a_changed_admission_is_charged_instead() -> None:
    ledger = book(host("n1"), host("n2"))
    ledger.apply(workload("ns/w", ("n1", 2)))
    ledger.apply(workload("ns/w", ("n2", 3)))
    assert (free(ledger, "n1"), free(ledger, "n2")) == (4, 1)


def test_usage_of_a_node_that_is_gone_is_there_when_it_comes_back() -> None:
    ledger = book(host("n1"))
    ledger.apply(workload("ns/w", ("n1", 3)))
    ledger.apply(ObjectRemoved(RemovedKind.NODE, "n1"))
    assert topology(ledger, 1) == "no topology domains at level: rack"
    ledger.apply(host("n1"))
    assert free(ledger, "n1") == 1


@pytest.mark.parametrize(
    "change",
    [{"usable": False}, {"labels": {RACK: "r1"}}, {"labels": {HOSTNAME_LABEL: "n1"}}],
    ids=["not usable", "no hostname", "no rack"],
)
def test_a_node_that_does_not_belong_is_out(change: dict[str, object]) -> None:
    ledger = book(host("n1"))
    ledger.apply(replace(host("n1"), **change))  # type: ignore[arg-type]  # a table of fields
    assert topology(ledger, 1) == "no topology domains at level: rack"


def test_flavors_over_the_same_hosts_see_each_others_usage() -> None:
    ledger = book(host("n1"))
    ledger.apply(Flavor("other", {"pool": "a"}, topology="t2", levels=(HOSTNAME_LABEL,)))
    ledger.apply(workload("ns/w", ("n1", 3)))
    result = ledger.placement.place(
        [PlacementRequest(PodSet("main", 2, GPU, topology=TopologyRequest(required=HOSTNAME_LABEL)), "other", 2)]
    )
    assert shown(result, "main") == 'topology "t2" allows to fit only 1 out of 2 pod(s)'


def test_fits_says_whether_an_admission_would_still_hold() -> None:
    ledger = book(host("n1"))
    wanted = workload("ns/w", ("n1", 3))
    assert wanted.admission is not None
    assert ledger.placement.fits(wanted, wanted.admission)
    ledger.apply(pod("a", "n1"))
    ledger.apply(pod("b", "n1"))
    assert not ledger.placement.fits(wanted, wanted.admission)
    gone = workload("ns/w", ("n9", 1))
    assert gone.admission is not None
    assert not ledger.placement.fits(gone, gone.admission)


def test_the_generation_grows_when_capacity_may_have_been_freed() -> None:
    ledger = book(host("n1"))
    seen = [ledger.generation("tas")]

    def grew() -> bool:
        seen.append(ledger.generation("tas"))
        return seen[-1] > seen[-2]

    ledger.apply(workload("ns/w", ("n1", 1)))
    ledger.apply(pod("a", "n1"))
    assert not grew()
    ledger.apply(ObjectRemoved(RemovedKind.POD, "ns/a"))
    assert grew()
    ledger.release("ns/w")
    assert grew()
    ledger.apply(host("n2"))
    assert grew()
    ledger.apply(Flavor("tas", topology="default", levels=(RACK,)))
    assert grew()
    assert ledger.generation("unknown") == 0


def test_a_trial_leaves_no_trace_and_a_kept_one_does() -> None:
    ledger = book(host("n1"))
    wanted = workload("ns/w", ("n1", 3))
    assert wanted.admission is not None
    before = dump(ledger)
    with ledger.trial():
        ledger.charge(wanted, wanted.admission)
        assert free(ledger, "n1") == 1
    assert dump(ledger) == before
    with ledger.trial() as trial:
        ledger.charge(wanted, wanted.admission)
        trial.keep()
    assert free(ledger, "n1") == 1
    assert ledger.admission("ns/w") == wanted.admission


def test_the_audit_names_what_is_wrong() -> None:
    ledger = book(host("n1"))
    ledger.apply(workload("ns/w", ("n1", 3)))
    tree = ledger._capacity.trees["tas"]
    tree.shift_free(0, ((ledger._capacity.columns.of("gpu"), 1),))
    ledger.quota.add("cq", {("tas", "gpu"): 1})
    assert ledger.audit() == [
        "flavor tas: r1/n1: free gpu is 2, expected 1",
        "quota usage of ClusterQueue cq is {('tas', 'gpu'): 4}, its workloads take {('tas', 'gpu'): 3}",
    ]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        pytest.param(lambda tree: tree.row_of_node.pop("n1"), "node n1 is missing", id="not in its row"),
        pytest.param(
            lambda tree: tree.row_of_node.update(gone=0), "node gone is in r1/n1, and belongs nowhere", id="a stranger"
        ),
        pytest.param(lambda tree: tree.row_of_node.update(n1=1), "node n1 is not in its domain", id="another's row"),
    ],
)
def test_the_audit_finds_nodes_that_are_not_where_they_belong(spoil: Callable[[Tree], object], message: str) -> None:
    ledger = book(host("n1"), host("n2"))
    spoil(ledger._capacity.trees["tas"])
    assert f"flavor tas: {message}" in ledger.audit()


def test_an_audit_in_parts_lives_with_changes_between_them() -> None:
    hosts = [host(f"n{index:04}") for index in range(1200)]
    ledger = book(*hosts)
    parts = ledger.auditing()
    found = [text for _, part in zip(range(2), parts, strict=False) for text in part]
    for gone in hosts[:900]:
        ledger.apply(ObjectRemoved(RemovedKind.NODE, gone.name))
    ledger.apply(workload("ns/w", ("n1000", 3)))
    assert [*found, *(text for part in parts for text in part)] == []


def test_absurd_amounts_do_not_overflow() -> None:
    ledger = book(host("n1"))
    for index in range(8):
        ledger.apply(BoundPod(f"ns/p{index}", "n1", {"gpu": 10**30}))
    assert topology(ledger, 1).startswith('topology "default" doesn\'t allow')
    for index in range(8):
        ledger.apply(ObjectRemoved(RemovedKind.POD, f"ns/p{index}"))
    assert free(ledger, "n1") == 4
    assert topology(ledger, 1, gpu=10**30).startswith('topology "default" doesn\'t allow')


# ---- where the lowest level is wider than a host


def test_nodes_are_counted_never_the_racks_sum() -> None:
    hosts = (host("n1", gpu=3), host("n2", gpu=3))
    assert topology(book(*hosts, wide=True), 1, gpu=4) == (
        'topology "default" doesn\'t allow to fit any of 1 pod(s). Total nodes: 2; excluded: resource "gpu": 2'
    )
    assert topology(book(*hosts, wide=True), 2, gpu=3) == "r1:2"
    assert topology(book(*hosts, wide=True, counting=Counting.DOMAINS), 1, gpu=4) == "r1:1"


def wide_workload(key: str, count: int, gpu: int = 1) -> Workload:
    return workload(key, ("r1", count), levels=(RACK,), gpu=gpu)


def test_pods_that_are_not_bound_yet_use_capacity_on_nodes() -> None:
    ledger = book(host("n1"), host("n2"), wide=True)
    ledger.apply(wide_workload("ns/w", 1, gpu=3))
    assert (free(ledger, "n1"), free(ledger, "n2")) == (1, 4)
    assert topology(ledger, 2, gpu=3).endswith('resource "gpu": 1')


def test_a_bound_pod_replaces_an_assumed_pod() -> None:
    ledger = book(host("n1"), host("n2"), wide=True)
    ledger.apply(wide_workload("ns/w", 2))
    assert (free(ledger, "n1"), free(ledger, "n2")) == (2, 4)
    ledger.apply(pod("a", "n2", "ns/w"))
    assert (free(ledger, "n1"), free(ledger, "n2")) == (3, 3)
    ledger.apply(ObjectRemoved(RemovedKind.POD, "ns/a"))
    assert free(ledger, "n1") + free(ledger, "n2") == 6


def test_assumed_pods_move_when_bound_pods_need_their_node() -> None:
    ledger = book(host("n1"), host("n2"), wide=True)
    ledger.apply(wide_workload("ns/w", 4))
    assert (free(ledger, "n1"), free(ledger, "n2")) == (0, 4)
    ledger.apply(pod("stranger", "n1"))
    assert (free(ledger, "n1"), free(ledger, "n2")) == (0, 3)
    ledger.apply(ObjectRemoved(RemovedKind.NODE, "n1"))
    assert free(ledger, "n2") == 0
    ledger.apply(ObjectRemoved(RemovedKind.POD, "ns/stranger"))
    ledger.apply(host("n3"))
    ledger.release("ns/w")
    assert (free(ledger, "n2"), free(ledger, "n3")) == (4, 4)
    assert ledger.audit() == []


def test_pods_without_a_node_get_one_when_it_comes() -> None:
    ledger = book(wide=True)
    ledger.apply(wide_workload("ns/w", 3))
    ledger.apply(host("n1", gpu=2))
    assert free(ledger, "n1") == 0
    ledger.apply(host("n2", gpu=2))
    assert free(ledger, "n2") == 1
    assert ledger.audit() == []


def test_domains_counting_charges_the_rack() -> None:
    ledger = book(host("n1"), host("n2"), wide=True, counting=Counting.DOMAINS)
    ledger.apply(wide_workload("ns/w", 3))
    ledger.apply(pod("a", "n2", "ns/w"))
    ledger.apply(pod("b", "n2"))
    assert topology(ledger, 5).startswith('topology "default" allows to fit only 4')
