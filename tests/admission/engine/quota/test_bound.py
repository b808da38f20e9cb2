"""What runs is what is charged: bound pods count until they have ended, whatever became of their reservation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    HOSTNAME_LABEL,
    Admission,
    BoundPod,
    ClusterQueue,
    Flavor,
    FlavorQuotas,
    Node,
    ObjectRemoved,
    Payer,
    PodSet,
    PodSetAdmission,
    Quota,
    RemovedKind,
    ResourceGroup,
    Workload,
)
from tests.admission.engine.dump import dump

GPU = "gpu"


def host(name: str) -> Node:
    return Node(name, {"pool": name[0], HOSTNAME_LABEL: name}, {GPU: 64, "pods": 110})


def ledger() -> Ledger:
    """A queue of two flavors, each of 8 GPUs; node a1 has the first flavor, node b1 the second."""
    made = Ledger()
    for name in ("a", "b"):
        made.apply(Flavor(name, {"pool": name}))
        made.apply(host(f"{name}1"))
    quotas = tuple(FlavorQuotas(name, {GPU: Quota(8), "pods": Quota(100)}) for name in ("a", "b"))
    made.apply(ClusterQueue("cq", groups=(ResourceGroup((GPU, "pods"), quotas),)))
    return made


def workload(pods: int, *, name: str = "w", flavor: str = "a", priority: int = 0) -> Workload:
    got = PodSetAdmission("main", {GPU: flavor, "pods": flavor}, {GPU: pods, "pods": pods}, pods)
    return Workload(
        f"ns/{name}",
        name,
        "ns/lq",
        "cq",
        (PodSet("main", pods, {GPU: 1}),),
        priority,
        admission=Admission("cq", (got,)),
    )


def pod(name: str, *, of: str | None = "ns/w", node: str = "a1", gpus: int = 1) -> BoundPod:
    return BoundPod(f"ns/{name}", node, {GPU: gpus}, of, "main")


def used(of: Ledger, flavor: str = "a") -> int:
    assert of.audit() == []
    return of.quota.usage("cq").get((flavor, GPU), 0)


def gone(kind: RemovedKind, key: str) -> ObjectRemoved:
    return ObjectRemoved(kind, key)


def test_a_reservation_counts_before_its_pods_are_bound_and_pods_within_it_count_nothing_more() -> None:
    book = ledger()
    book.apply(workload(4))
    for number in range(4):
        book.apply(pod(f"p{number}"))
        assert used(book) == 4
    assert book.bound.excess_of("ns/w") == {}


def test_more_pods_than_were_admitted_are_charged_and_keep_others_out() -> None:
    book = ledger()
    book.apply(workload(4))
    for number in range(7):
        book.apply(pod(f"p{number}"))
    assert used(book) == 7
    assert not book.quota.fits("cq", {("a", GPU): 2})
    book.apply(gone(RemovedKind.POD, "ns/p0"))
    assert used(book) == 6


@pytest.mark.parametrize("after", [None, 1], ids=["released", "shrunk"])
def test_pods_count_until_they_have_ended(after: int | None) -> None:
    """A suspended, deleted, orphaned or shrunk job: its reservation is less at once, its pods are not."""
    book = ledger()
    book.apply(workload(4))
    for number in range(4):
        book.apply(pod(f"p{number}"))
    book.apply(gone(RemovedKind.WORKLOAD, "ns/w") if after is None else workload(after))
    for left in (4, 3, 2):
        assert used(book) == left
        book.apply(gone(RemovedKind.POD, f"ns/p{left - 1}"))
    book.apply(gone(RemovedKind.POD, "ns/p1"))
    book.apply(gone(RemovedKind.POD, "ns/p0"))
    assert used(book) == (after or 0)


def test_a_workload_starts_again_beside_its_pods_only_where_these_may_never_end() -> None:
    """Five of its pods are on a node that does not respond, three on one that does."""
    book = ledger()
    dead = replace(host("a1"), usable=False, responds=False)
    book.apply(host("a2"))
    book.apply(workload(8))
    for number in range(8):
        book.apply(pod(f"p{number}", node="a1" if number < 5 else "a2"))
    book.apply(replace(workload(8), admission=None))
    book.apply(dead)
    assert used(book) == 8
    assert not book.quota.fits("cq", {("a", GPU): 1})
    with book.bound.lifted("ns/w"):
        assert book.quota.fits("cq", {("a", GPU): 5})
        assert not book.quota.fits("cq", {("a", GPU): 6})
        book.apply(workload(5))
    assert used(book) == 8


@pytest.mark.parametrize(("node", "flavor"), [("a1", "a"), ("b1", "b"), ("unknown", "a")])
def test_without_an_admission_the_queue_pays_in_the_flavor_of_the_node(node: str, flavor: str) -> None:
    book = ledger()
    book.apply(pod("p", node=node, gpus=3))
    assert used(book, flavor) == 0, "nobody is known to pay"
    book.apply(Payer("ns/w", "cq", "ns/lq"))
    assert used(book, flavor) == 3
    assert book.bound.of_local_queue("ns/lq") == {(flavor, GPU): 3, (flavor, "pods"): 1}
    book.apply(gone(RemovedKind.POD, "ns/p"))
    assert used(book, flavor) == 0


def test_the_last_admission_says_who_pays() -> None:
    book = ledger()
    book.apply(workload(1, flavor="b"))
    book.apply(pod("p", node="a1"))
    book.apply(gone(RemovedKind.WORKLOAD, "ns/w"))
    book.apply(Payer("ns/w", "another"))
    assert used(book, "b") == 1


def test_what_a_pod_uses_beyond_its_template_is_charged() -> None:
    """An injected sidecar, for example."""
    book = ledger()
    book.apply(workload(2))
    book.apply(pod("p0", gpus=3))
    book.apply(pod("p1"))
    assert used(book) == 4
    book.apply(pod("p0", gpus=1))
    assert used(book) == 2


def test_a_pod_counts_what_quota_counts_of_it() -> None:
    book = ledger()
    book.apply(workload(1))
    book.apply(replace(pod("p0", gpus=3), charged={GPU: 2}))
    assert used(book) == 2


def test_excess_goes_with_its_workload() -> None:
    """A preemptor that evicts the workload counts on what its pods use, by its priority."""
    book = ledger()
    book.apply(workload(2, priority=5))
    for number in range(5):
        book.apply(pod(f"p{number}"))
    admission = book.admission("ns/w")
    assert admission is not None
    assert book.returned("ns/w", admission)["a", GPU] == 5
    assert book.usage_by_priority.below("cq", ("a", GPU), 6) == 5
    book.apply(workload(2, priority=7))
    assert book.usage_by_priority.below("cq", ("a", GPU), 6) == 0
    before = dump(book)
    with book.trial():
        book.remove_with_pods("ns/w")
        assert book.quota.usage("cq").get(("a", GPU), 0) == 0
    assert dump(book) == before
    assert used(book) == 5


def test_pods_follow_the_slice_that_takes_their_workload_over() -> None:
    book = ledger()
    book.apply(workload(2))
    for number in range(3):
        book.apply(pod(f"p{number}"))
    grown = workload(4, name="grown")
    assert grown.admission is not None
    book.charge_instead("ns/w", grown, grown.admission)
    assert used(book) == 4
    assert book.bound.payer_of("ns/w") is None
