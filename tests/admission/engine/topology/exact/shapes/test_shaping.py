"""The constraint language by its stories: who gets how many pods, and what is said where a hard constraint cannot be met."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from admission.engine.decision import Proof
from admission.engine.model import (
    LevelConstraint,
    ObjectRemoved,
    PlacementOptions,
    PlacementRequest,
    PodSet,
    RemovedKind,
    SliceLayer,
)
from tests.admission.engine.topology.exact.shapes.shapes import (
    PACK,
    SPREAD,
    Capacities,
    asked,
    cluster,
    host,
    place,
    proved,
    shares_of,
)
from tests.admission.engine.topology.test_replace import charged
from tests.admission.engine.topology.vectors import BLOCK, FLAVOR, LEVELS, ONE_CPU, RACK, ledger

HOST = LEVELS[-1]


def racks(*capacities: Sequence[int]) -> Capacities:
    """One block, its racks by the rooms of their hosts."""
    return {
        ("b", f"r{rack}", f"h{at}"): capacity
        for rack, some in enumerate(capacities)
        for at, capacity in enumerate(some)
    }


def on(level: str, **more: object) -> LevelConstraint:
    """A constraint; spread unless told otherwise."""
    return LevelConstraint(level, **{"spreading": SPREAD, **more})  # type: ignore[arg-type]  # mypy: fields by name


def by_rack(shares: dict[tuple[str, ...], int]) -> list[list[int]]:
    """The shares of the used hosts of each used rack, in order of names."""
    found: dict[str, list[int]] = {}
    for path, share in sorted(shares.items()):
        found.setdefault(path[1], []).append(share)
    return list(found.values())


EVEN = (on(HOST),)
A = (on(RACK, partitions=2),)
AT_MOST_2 = (on(HOST, spreading=PACK, maximum=2),)
B = (on(HOST, minimum=2, maximum=4),)
STORIES = {
    "free cluster": (racks([8, 8, 8], [8, 8, 8]), 8, EVEN, [[3, 3, 2]]),
    "one node full, one with room for three": (racks([8, 3, 0], [2, 2, 2]), 8, EVEN, [[5, 3]]),
    "a rack that holds six": (racks([3, 0, 3], [1, 0, 4]), 8, EVEN, [[3, 3], [1, 1]]),
    "story A": (racks([4, 4], [4, 4], [4, 4]), 8, A, [[4], [4]]),
    "story A, nodes of two": (racks([2, 2, 2], [2, 2, 1], [1, 1, 1]), 8, A, [[2, 2], [2, 2]]),
    "story B, servers of three nodes": (racks([4, 4, 4], [4, 4, 4]), 6, B, [[2, 2, 2]]),
    "story B, servers of two nodes": (racks([4, 4], [4, 4]), 6, B, [[3, 3]]),
    "story B, servers of five nodes": (racks([4, 4, 4, 4, 4]), 6, B, [[2, 2, 2]]),
    "story B, too large for one server": (racks([4], [4, 0]), 6, B, [[4], [2]]),
    "packed without a constraint elsewhere": (racks([2, 5, 4]), 8, (on(RACK, spreading=PACK),), [[5, 3]]),
    "multiples of four": (racks([7, 4, 4]), 8, (on(HOST, spreading=PACK, factor=4),), [[4, 4]]),
    "multiples as near as can be": (racks([7, 4]), 8, (on(HOST, spreading=PACK, factor=4),), [[4, 4]]),
    "three parts of seven": (racks([9, 9, 9, 9]), 7, (on(HOST, partitions=3),), [[3, 2, 2]]),
    "parts missing": (racks([9, 9]), 7, (on(HOST, partitions=3),), [[4, 3]]),
    "hard spread leaves a small node out": (racks([8, 8, 1]), 8, (on(HOST, hard=True),), [[4, 4]]),
    "hard range": (racks([8, 8, 8]), 8, (on(HOST, spreading=PACK, maximum=4, hard=True),), [[4, 4]]),
    "hard below decides above": (
        racks([5, 2], [3, 3]),
        6,
        (on(RACK, spreading=PACK), on(HOST, partitions=2, hard=True)),
        [[3, 3]],
    ),
    "max before a level without a constraint": (racks([4, 4, 4], [4, 4, 4]), 8, AT_MOST_2, [[2, 2, 2], [2]]),
    "max exceeded by least": (racks([4, 4], [4, 4]), 10, AT_MOST_2, [[3, 3], [2, 2]]),
    "min before a level without a constraint": (
        racks([5, 2], [3, 0]),
        6,
        (on(HOST, spreading=PACK, minimum=3),),
        [[3], [3]],
    ),
    "multiples before a level without a constraint": (
        racks([6, 2], [4]),
        8,
        (on(HOST, spreading=PACK, factor=4),),
        [[4], [4]],
    ),
    "max after a level with a constraint": (
        racks([4, 4, 4], [4, 4, 4]),
        8,
        (on(RACK, spreading=PACK), *AT_MOST_2),
        [[4, 2, 2]],
    ),
    "least stranded among equals": (racks([9, 3, 8, 4]), 6, (on(HOST, partitions=2),), [[3, 3]]),
}


@pytest.mark.parametrize(("capacities", "pods", "constraints", "wanted"), STORIES.values(), ids=STORIES.keys())
def test_stories(
    capacities: Capacities, pods: int, constraints: tuple[LevelConstraint, ...], wanted: list[list[int]]
) -> None:
    result = place(cluster(capacities), asked("unconstrained", constraints), pods)
    assert result.fits
    assert by_rack(shares_of(result)) == wanted
    assert proved(result).proof is Proof.OPTIMAL


def test_least_stranded_opens_the_small_nodes() -> None:
    result = place(cluster(racks([9, 3, 8, 4])), asked("unconstrained", [on(HOST, partitions=2)]), 6)
    assert set(shares_of(result)) == {("b", "r0", "h1"), ("b", "r0", "h3")}


def test_equals_go_by_name() -> None:
    result = place(cluster(racks([4, 4, 4], [4, 4, 4])), asked("unconstrained", EVEN), 4)
    assert shares_of(result) == {("b", "r0", "h0"): 2, ("b", "r0", "h1"): 1, ("b", "r0", "h2"): 1}


@pytest.mark.parametrize(
    ("bound", "wanted"),
    [
        ("required rack", "h0:2 h1:2"),
        ("required host", "h0:4"),
        ("preferred host", "h0:4"),
        ("unconstrained", "h0:1 h1:1 h2:1 h4:1"),
    ],
)
def test_required_bounds_and_constraints_shape_inside(bound: str, wanted: str) -> None:
    capacities: Capacities = {("b", f"r{at // 2}", f"h{at}"): 4 for at in range(6)}
    result = place(cluster(capacities), asked(bound, [on(RACK), on(HOST)]), 4)
    shares = " ".join(f"{path[-1]}:{share}" for path, share in sorted(shares_of(result).items()))
    assert shares == wanted


def test_preferred_climbs_past_a_domain_that_a_hard_constraint_forbids() -> None:
    capacities: Capacities = {("b", "r0", "h0"): 8, ("b", "r1", "h1"): 8, ("c", "r0", "h2"): 8}
    result = place(cluster(capacities), asked("preferred rack", [on(RACK, partitions=2, hard=True)]), 4)
    assert {path[0] for path in shares_of(result)} == {"b"}


NO_FIT = {
    "too little room": (
        racks([3, 2]),
        [on(HOST)],
        "allows to fit only 5 out of 8 pod(s)",
    ),
    "no room at all": (racks([0, 0]), [on(HOST, hard=True)], "doesn't allow to fit any of 8 pod(s)"),
    "hard partitions": (
        racks([9, 9]),
        [on(HOST, partitions=3, hard=True)],
        "doesn't allow to fit all of 8 pod(s): no placement meets the hard placement constraint exactly 3 partition(s) at "
        f"level {HOST}",
    ),
    "the one of two that cannot be met": (
        racks([9, 9], [9, 9]),
        [on(RACK, spreading=PACK, hard=True), on(HOST, spreading=PACK, minimum=5, maximum=7, hard=True)],
        "doesn't allow to fit all of 8 pod(s): no placement meets the hard placement constraint at least 5, at most "
        f"7 at level {HOST}",
    ),
    "two that cannot be met": (
        racks([3, 3], [3, 3]),
        [on(RACK, spreading=PACK, hard=True), on(HOST, spreading=PACK, hard=True)],
        "doesn't allow to fit all of 8 pod(s): no placement meets the hard placement constraint all on one at "
        f"level {RACK} and all on one at level {HOST}",
    ),
    "nonsense": (
        racks([9, 9]),
        [on(HOST, minimum=5, maximum=4)],
        f"doesn't allow to fit all of 8 pod(s): the placement constraint at level {HOST} contradicts itself",
    ),
    "factor 0": (
        racks([9, 9]),
        [on(HOST, factor=0)],
        f"doesn't allow to fit all of 8 pod(s): the placement constraint at level {HOST} contradicts itself",
    ),
}


@pytest.mark.parametrize(("capacities", "constraints", "message"), NO_FIT.values(), ids=NO_FIT.keys())
def test_no_fit_says_which_hard_constraint(
    capacities: Capacities, constraints: list[LevelConstraint], message: str
) -> None:
    result = place(cluster(capacities), asked("unconstrained", constraints), 8)
    assert result.failures["main"].message.partition(". Total nodes")[0] == f'topology "default" {message}'
    assert proved(result).proof is Proof.INFEASIBLE


def test_slices_stay_whole_under_a_spread() -> None:
    topology = asked("unconstrained", [on(HOST)], slices=(SliceLayer(HOST, 2),))
    result = place(cluster(racks([5, 5, 5, 5])), topology, 8)
    assert sorted(shares_of(result).values()) == [2, 2, 2, 2]


def test_lost_pods_of_a_broken_slice_may_leave_its_rack_if_slices_stay_whole() -> None:
    capacities = racks([2], [5, 4])
    topology = asked("unconstrained", [on(HOST, spreading=PACK)], slices=(SliceLayer(RACK, 2),))
    topologies = PlacementRequest(PodSet("main", 6, ONE_CPU, topology=topology), FLAVOR, 6)
    placed = replace(topologies, previous=place(cluster(capacities), topology, 6).assignments["main"])
    book = charged(cluster(capacities), placed)
    book.apply(ObjectRemoved(RemovedKind.NODE, "b-r1-h0"))
    assert by_rack(shares_of(book.placement.replace([placed], "b-r1-h0"))) == [[2], [4]]


def test_a_job_that_grows_keeps_its_constraints() -> None:
    capacities, topology = racks([4, 4], [4, 4]), asked("unconstrained", A)
    small = place(cluster(capacities), asked("unconstrained", [on(RACK, spreading=PACK)]), 4).assignments["main"]
    grown = PlacementRequest(PodSet("main", 8, ONE_CPU, topology=topology), FLAVOR, 8, previous=small)
    assert by_rack(shares_of(cluster(capacities).placement.place([grown]))) == [[4], [4]]


def test_the_lowest_level_may_be_wider_than_a_host() -> None:
    nodes = [host(path, capacity) for path, capacity in racks([3, 3], [5, 1], [9]).items()]
    book = ledger(PlacementOptions(), nodes, (BLOCK, RACK))
    result = place(book, asked("unconstrained", [on(RACK, factor=3)]), 9)
    assert {domain.values: domain.count for domain in result.assignments["main"].domains} == {
        ("b", "r0"): 3,
        ("b", "r1"): 3,
        ("b", "r2"): 3,
    }


def test_a_leader_is_refused() -> None:
    topology = replace(asked("unconstrained", EVEN), group="g")
    sizes = {"leader": 1, "worker": 3}
    members = [PlacementRequest(PodSet(name, n, ONE_CPU, topology=topology), FLAVOR, n) for name, n in sizes.items()]
    result = cluster(racks([9])).placement.place(members)
    assert "cannot be combined with a leader" in result.failures["worker"].message


def test_a_spent_budget_still_keeps_hard_constraints_and_says_so() -> None:
    capacities: Capacities = {("b", f"r{at % 7}", f"h{at}"): 3 + at % 5 for at in range(40)}
    constraints = [on(RACK, minimum=4, maximum=9), on(HOST, factor=2, maximum=4, hard=True)]
    whole = place(cluster(capacities), asked("unconstrained", constraints), 30)
    spent = place(cluster(capacities, budget=1), asked("unconstrained", constraints), 30)
    assert proved(whole).proof is Proof.OPTIMAL
    assert proved(spent).proof is Proof.FEASIBLE
    assert proved(whole).cost <= proved(spent).cost
    assert all(share in (2, 4) for share in shares_of(spent).values())
    assert sum(shares_of(spent).values()) == 30
