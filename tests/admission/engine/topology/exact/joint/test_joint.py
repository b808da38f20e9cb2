"""Several pod sets of one workload that compete for the same nodes, with Profile Exact."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest

from admission.engine.decision import NoPlacement, PlacementResult, Proof
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    HOSTNAME_LABEL,
    Counting,
    Node,
    PlacementOptions,
    PlacementRequest,
    Profile,
)
from tests.admission.engine.topology.vectors import BLOCK, FLAVOR, LEVELS, RACK, ledger, node, request, shown

EXACT = PlacementOptions()
COMPATIBLE = PlacementOptions(profile=Profile.COMPATIBLE)


def racks(options: PlacementOptions, sizes: dict[str, list[int]], **more: int) -> Ledger:
    """Racks of hosts with so many cpus each, all in one block."""
    hosts = [
        node(f"{rack}-{index}", {BLOCK: "b", RACK: rack}, cpus, **more)
        for rack, some in sizes.items()
        for index, cpus in enumerate(some)
    ]
    return ledger(options, hosts)


def used(result: PlacementResult, name: str) -> set[str]:
    """The racks that a pod set stands in (its hosts are named after them)."""
    return {domain.values[-1].rpartition("-")[0] for domain in result.assignments[name].domains}


def proofs(result: PlacementResult) -> set[Proof]:
    """What is proved of the pod sets."""
    return {certificate.proof for certificate in result.certificates.values()}


@pytest.mark.parametrize("order", list(permutations([5, 5, 6])), ids=str)
def test_five_and_five_share_the_rack_of_ten_whatever_the_order(order: tuple[int, ...]) -> None:
    book = racks(EXACT, {"r1": [5, 5], "r2": [3, 3]})
    asked = [request(f"p{index}", "required rack", count) for index, count in enumerate(order)]
    result = book.placement.place(asked)
    assert result.fits
    assert {count: used(result, f"p{index}") for index, count in enumerate(order)} == {5: {"r1"}, 6: {"r2"}}
    assert proofs(result) == {Proof.OPTIMAL}
    assert book.placement.place(asked) == result, "the question left something behind"


def test_compatible_loses_that_case() -> None:
    asked = [request(name, "required rack", count) for name, count in (("a", 5), ("b", 5), ("c", 6))]
    assert not racks(COMPATIBLE, {"r1": [5, 5], "r2": [3, 3]}).placement.place(asked).fits


@pytest.mark.parametrize("first", ["plain", "gpu"])
def test_pods_without_gpus_leave_the_gpu_rack_to_those_with(first: str) -> None:
    hosts = [
        node("cpu-0", {BLOCK: "b", RACK: "cpu"}, 20),
        node("gpu-0", {BLOCK: "b", RACK: "gpu"}, 8, gpu=8),
        node("gpu-1", {BLOCK: "b", RACK: "gpu"}, 8, gpu=8),
    ]
    book = ledger(EXACT, hosts)
    asked = [request("plain", "required rack", 12), request("gpu", "required rack", 16, {"cpu": 1000, "gpu": 1})]
    result = book.placement.place(asked if first == "plain" else asked[::-1])
    assert (used(result, "plain"), used(result, "gpu")) == ({"cpu"}, {"gpu"})
    assert proofs(result) == {Proof.OPTIMAL}


def test_hosts_are_shared_just_so() -> None:
    """Of each host's 3 cpus a large pod needs 2: the small ones must stand one beside each large one."""
    book = racks(EXACT, {"r1": [3, 3, 3]})
    asked = [request("small", "required rack", 3), request("large", "required rack", 3, {"cpu": 2000})]
    result = book.placement.place(asked)
    assert shown(result, "small") == "r1-0:1 r1-1:1 r1-2:1"
    assert shown(result, "large") == "r1-0:1 r1-1:1 r1-2:1"


def test_a_required_block_leaves_capacity_for_a_required_rack_in_it() -> None:
    hosts = [
        node(f"{b}-{r}", {BLOCK: b, RACK: r}, cpus)
        for b, r, cpus in (("b1", "r1", 4), ("b1", "r2", 2), ("b2", "r3", 3))
    ]
    book = ledger(EXACT, hosts)
    asked = [
        request("wide", "required block", 3),
        request("narrow", "required rack", 4),
        request("last", "required rack", 2),
    ]
    result = book.placement.place(asked)
    assert {name: used(result, name) for name in ("wide", "narrow", "last")} == {
        "wide": {"b2"},
        "narrow": {"b1"},
        "last": {"b1"},
    }


def test_a_preferred_rack_is_kept_whole_for_the_one_that_fills_it() -> None:
    """In turn: 3 take the rack of 4, the next 4 that of 6, and the last 3 must be torn apart."""
    sizes = {"r1": [4], "r2": [6]}
    asked = [request(f"p{i}", "preferred rack", count) for i, count in enumerate([3, 4, 3])]
    result = racks(EXACT, sizes).placement.place(asked)
    assert [used(result, f"p{i}") for i in range(3)] == [{"r2"}, {"r1"}, {"r2"}]
    assert {certificate.cost for certificate in result.certificates.values()} == {(3,)}
    assert proofs(result) == {Proof.OPTIMAL}


def test_impossibility_is_proved_and_reported_in_kueues_words() -> None:
    asked = [request(name, "required rack", 5) for name in "abc"]
    sizes = {"r1": [5, 5], "r2": [4]}
    result = racks(EXACT, sizes).placement.place(asked)
    assert shown(result, "c") == shown(racks(COMPATIBLE, sizes).placement.place(asked), "c")
    assert result.certificates["c"].proof is Proof.INFEASIBLE
    assert result.failures.keys() == {"c"}


def test_a_budget_of_one_says_that_it_ended() -> None:
    asked = [request(name, "required rack", count) for name, count in (("a", 5), ("b", 5), ("c", 6))]
    result = racks(PlacementOptions(exact_budget=1), {"r1": [5, 5], "r2": [3, 3]}).placement.place(asked)
    (failure,) = result.failures.values()
    assert failure.message.endswith("search nodes")
    assert "allows to fit only 5 out of 6 pod(s)" in failure.message
    assert not result.certificates


def test_the_simulation_of_an_empty_cluster_is_solved_together_as_well() -> None:
    asked = [request(name, "required rack", count) for name, count in (("a", 5), ("b", 5), ("c", 6))]
    assert racks(EXACT, {"r1": [5, 5], "r2": [3, 3]}).placement.place(asked, simulate_empty=True).fits


def test_slices_stay_whole_where_pod_sets_share_hosts() -> None:
    book = racks(EXACT, {"r1": [4, 3], "r2": [4, 4]})
    asked = [
        request("odd", "required rack", 3),
        request("pairs", "required rack; slice host*2", 6),
        request("rest", "required rack; slice host*4", 4),
    ]
    result = book.placement.place(asked)
    assert result.fits
    for name, size in (("pairs", 2), ("rest", 4)):
        assert all(domain.count % size == 0 for domain in result.assignments[name].domains)


# ---- groups


def test_three_pod_sets_of_one_group_share_one_rack() -> None:
    book = racks(EXACT, {"r1": [4, 4], "r2": [5, 4], "r3": [20]})
    asked = [
        request("driver", "required rack", 1, group="g"),
        request("workers", "required rack", 6, group="g"),
        request("loaders", "required rack", 2, group="g"),
    ]
    result = book.placement.place(asked)
    assert {frozenset(used(result, name)) for name in ("driver", "workers", "loaders")} == {frozenset({"r2"})}
    assert [sum(domain.count for domain in result.assignments[r.pod_set.name].domains) for r in asked] == [1, 6, 2]


def test_a_group_of_three_that_must_share_hosts_just_so() -> None:
    book = racks(EXACT, {"r1": [3, 3, 3]})
    asked = [
        request("a", "required rack", 3, group="g"),
        request("b", "required rack", 2, {"cpu": 2000}, group="g"),
        request("c", "required rack", 1, {"cpu": 2000}, group="g"),
    ]
    result = book.placement.place(asked)
    assert result.fits
    assert shown(result, "a") == "r1-0:1 r1-1:1 r1-2:1"


def test_a_group_of_three_that_only_different_racks_hold() -> None:
    book = racks(EXACT, {"r1": [4], "r2": [4]})
    asked = [request(name, "required rack", 2, group="g") for name in "abc"]
    result = book.placement.place(asked)
    assert result.failures.keys() == {"a", "b", "c"}
    assert proofs(result) == {Proof.INFEASIBLE}


def test_a_preferred_group_of_three_spreads_only_where_it_must() -> None:
    asked = [request(name, "preferred rack", 2, group="g") for name in "abc"]
    together = racks(EXACT, {"r1": [4], "r2": [6], "r3": [4]}).placement.place(asked)
    assert set.union(*(used(together, name) for name in "abc")) == {"r2"}
    apart = racks(EXACT, {"r1": [4], "r2": [2]}).placement.place(asked)
    assert set.union(*(used(apart, name) for name in "abc")) == {"r1", "r2"}


def test_compatible_says_that_it_does_not_know_groups_of_three() -> None:
    asked = [request(name, "required rack", 1, group="g") for name in "abc"]
    result = racks(COMPATIBLE, {"r1": [9]}).placement.place(asked)
    assert result.failures["b"] == NoPlacement("a pod set group of 3 pod sets needs the placement profile Exact")


def test_a_leader_and_its_workers_leave_capacity_for_the_next_group() -> None:
    """In turn the group of 5 + 1 takes the rack of 6 and the 6 after it find nothing."""
    book = racks(EXACT, {"r1": [3, 3], "r2": [4, 4]})
    asked = [
        request("leader", "required rack", 1, group="g"),
        request("workers", "required rack", 4, group="g"),
        request("more", "required rack", 3),
        request("last", "required rack", 6),
    ]
    result = book.placement.place(asked)
    assert result.fits
    assert used(result, "leader") == used(result, "workers") == used(result, "more") == {"r2"}
    assert used(result, "last") == {"r1"}


@pytest.mark.parametrize("counting", list(Counting))
def test_racks_as_the_lowest_level(counting: Counting) -> None:
    hosts = [
        Node(f"{rack}-{i}", {BLOCK: "b", RACK: rack, HOSTNAME_LABEL: f"{rack}-{i}"}, {"cpu": 1000 * cpus, "pods": 99})
        for rack, some in {"r1": [5, 5], "r2": [3, 3]}.items()
        for i, cpus in enumerate(some)
    ]
    book = ledger(PlacementOptions(counting=counting), hosts, LEVELS[:2])
    asked = [request(name, "required rack", count) for name, count in (("a", 5), ("b", 5), ("c", 6))]
    result = book.placement.place(asked)
    assert [shown(result, name) for name in "abc"] == ["b/r1:5", "b/r1:5", "b/r2:6"]


def test_a_single_pod_set_is_left_to_its_own_solver() -> None:
    alone: list[PlacementRequest] = [request("main", "required rack", 6)]
    result = racks(EXACT, {"r1": [5, 5], "r2": [3, 3]}).placement.place(alone)
    assert used(result, "main") == {"r2"}
    assert all(request.flavor == FLAVOR for request in alone)


def test_two_pod_sets_of_several_pods_each_are_a_group_as_well() -> None:
    asked = [request(name, "required rack", 3, group="g") for name in "ab"]
    result = racks(EXACT, {"r1": [5], "r2": [4, 4]}).placement.place(asked)
    assert [sum(domain.count for domain in result.assignments[name].domains) for name in "ab"] == [3, 3]
    assert used(result, "a") == used(result, "b") == {"r2"}


def test_a_group_of_three_that_grows_stays_where_it_is() -> None:
    book = racks(EXACT, {"r1": [9], "r2": [5, 5]})
    asked = [request(name, "required rack", 2, group="g") for name in "abc"]
    before = book.placement.place(asked).assignments
    assert {frozenset(used(book.placement.place(asked), name)) for name in "abc"} == {frozenset({"r1"})}
    grown = [replace(one, count=one.count + 1, previous=before[one.pod_set.name]) for one in asked]
    result = book.placement.place(grown)
    assert {shown(result, name) for name in "abc"} == {"r1-0:3"}
    too_large = [replace(one, count=one.count + 2, previous=before[one.pod_set.name]) for one in asked]
    assert not book.placement.place(too_large).fits, "it must not leave the pods that run behind"
