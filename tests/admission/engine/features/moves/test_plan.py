"""Plans of moves: which, what they cost, and why there are none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from admission.engine.decision import Proof
from admission.engine.features.moves.plan import PlanOptions, plan
from admission.engine.features.moves.plans import MovePlan, NoPlan, NoPlanReason
from admission.engine.features.moves.vacate import vacate
from admission.engine.model import NO_TERMS, Assignment, DomainCount, Gang, Node, PodSet, RestartTerms, TopologyRequest
from tests.admission.engine.builders import HOST, RACK, host, racks
from tests.admission.engine.features.moves.clusters import MOVABLE, NOW, ONE_RACK, Running, cluster, gang, hosts_of, own

TWO: Mapping[str, Running] = {"a": Running({"h0": 1}), "b": Running({"h2": 1}, ran=700)}
"""One small workload in each of two racks; `b` has less to lose."""


def moved(move_plan: MovePlan | NoPlan) -> dict[str, dict[str, int]]:
    """The pods by host that each mover gets; fails if there is no plan."""
    assert isinstance(move_plan, MovePlan), move_plan
    return {move.workload: hosts_of(move.after) for move in move_plan.moves}


def test_the_cheaper_blocker_moves_to_what_is_free() -> None:
    found = plan(cluster(TWO), gang(), NOW)
    assert moved(found) == {"b": {"h0": 1}}
    assert isinstance(found, MovePlan)
    assert found.cost == 700
    assert found.certificate.proof is Proof.OPTIMAL
    assert hosts_of(found.admission) == {"h2": 1, "h3": 1}


def test_blockers_of_one_rack_leave_together() -> None:
    runs = {"a": Running({"h0": 1}), "b": Running({"h1": 1}), "c": Running({"h2": 3, "h3": 3}, moves=NO_TERMS)}
    assert moved(plan(cluster(runs), gang(), NOW)) == {"a": {"h2": 1}, "b": {"h3": 1}}


def test_one_more_goes_where_the_first_ones_have_no_places_otherwise() -> None:
    """`large` alone frees enough, but its only two places are h5 and h1, so the gang takes that of `small` instead of h1."""
    runs = {
        "large": Running({"h0": 1, "h2": 1}, cpus=3, ran=700),
        "small": Running({"h2": 1}, ran=700),
        "stays": Running({"h3": 1, "h4": 1}, cpus=4, moves=NO_TERMS),
    }
    found = plan(cluster(runs, racks_of=3), gang(), NOW)
    assert moved(found) == {"large": {"h1": 1, "h5": 1}, "small": {"h1": 1}}
    assert isinstance(found, MovePlan)
    assert hosts_of(found.admission) == {"h0": 1, "h2": 1}


def test_a_mover_uses_what_the_gang_and_the_others_leave_of_a_host() -> None:
    """On h0, one cpu is free now, and still when the gang has two of those of `two`."""
    runs = {
        "two": Running({"h0": 1}, cpus=2, ran=700),
        "stays": Running({"h0": 1, "h2": 1}, ran=3000),
        "full": Running({"h2": 1}, cpus=3, moves=NO_TERMS),
        "split": Running({"h1": 1, "h3": 1}, ran=700),
    }
    found = plan(cluster(runs), gang(3, 2), NOW)
    assert moved(found) == {"two": {"h3": 1}, "split": {"h0": 1, "h3": 1}}
    assert isinstance(found, MovePlan)
    assert hosts_of(found.admission) == {"h0": 1, "h1": 2}


@pytest.mark.parametrize(
    ("hosts", "pods", "mover"),
    [
        pytest.param({"b": "h0", "a": "h2"}, 2, "b", id="in the rack of the first name"),
        pytest.param({"b": "h0", "a": "h1"}, 1, "a", id="in one rack the workload of the first name"),
    ],
)
def test_names_decide_between_equals(hosts: Mapping[str, str], pods: int, mover: str) -> None:
    rest = {f"full-{host}": Running({host: 3}, moves=NO_TERMS) for host in ("h2", "h3") if pods == 1}
    runs = {**{name: Running({host: 1}) for name, host in hosts.items()}, **rest}
    assert list(moved(plan(cluster(runs), gang(pods), NOW))) == [mover]


def test_one_expensive_workload_moves_rather_than_several_that_cost_more_together() -> None:
    many = {f"m{index}": Running({"h0": 1}, ran=700) for index in range(3)}
    runs = {"one": Running({"h2": 1}, ran=2000), **many}
    assert list(moved(plan(cluster(runs), gang(), NOW))) == ["one"]


@pytest.mark.parametrize(
    ("terms", "cost"),
    [
        pytest.param(RestartTerms(movable=True), 2 * 1000, id="since its start, for each device"),
        pytest.param(RestartTerms(movable=True, checkpoint=NOW - 30), 2 * 30, id="since its checkpoint"),
        pytest.param(RestartTerms(movable=True, checkpoint=NOW - 5000), 2 * 1000, id="a checkpoint of an earlier run"),
        pytest.param(RestartTerms(movable=True, checkpoint=NOW + 5000), 0, id="a checkpoint in the future"),
        pytest.param(RestartTerms(movable=True, cost=60, checkpoint=NOW), 2 * 60, id="the restart's own cost"),
    ],
)
def test_a_move_costs_the_work_since_the_last_checkpoint(terms: RestartTerms, cost: int) -> None:
    runs = {"a": Running({"h0": 2}, moves=terms), "b": Running({"h2": 1}, moves=NO_TERMS)}
    found = plan(cluster(runs), gang(), NOW)
    assert isinstance(found, MovePlan)
    assert found.cost == cost


@pytest.mark.parametrize(
    ("queue_terms", "own_terms", "moves"),
    [
        pytest.param(NO_TERMS, NO_TERMS, False, id="nobody says so"),
        pytest.param(MOVABLE, NO_TERMS, True, id="the queue says so"),
        pytest.param(MOVABLE, RestartTerms(movable=False), False, id="the workload objects"),
        pytest.param(RestartTerms(movable=True, minimum_run=5000), NO_TERMS, False, id="the queue's minimum run time"),
        pytest.param(
            RestartTerms(movable=True, minimum_run=5000),
            RestartTerms(minimum_run=0),
            True,
            id="its own minimum run time",
        ),
        pytest.param(NO_TERMS, RestartTerms(movable=True, moved=NOW - 10), False, id="moved a moment ago"),
    ],
)
def test_terms_of_the_workload_come_before_those_of_its_queue(
    queue_terms: RestartTerms, own_terms: RestartTerms, moves: bool
) -> None:
    runs = {"a": Running({"h0": 1}, moves=own_terms), "b": Running({"h2": 1}, moves=RestartTerms(movable=False))}
    found = plan(cluster(runs, own(moves=queue_terms)), gang(), NOW)
    assert isinstance(found, MovePlan) == moves


def reason(move_plan: MovePlan | NoPlan) -> NoPlanReason | None:
    """Why there is no plan."""
    return move_plan.reason if isinstance(move_plan, NoPlan) else None


FULL = {f"w{index}": Running({f"h{index}": 4}) for index in range(4)}
WALL = {"a": Running({"h0": 1}, cpus=4), **{f"b{host}": Running({host: 1}, moves=NO_TERMS) for host in ("h2", "h3")}}
"""`a` needs a whole host, and the only free one is the gang's."""


@pytest.mark.parametrize(
    ("runs", "options", "why"),
    [
        pytest.param({"a": Running({"h0": 1})}, {}, NoPlanReason.FITS, id="another rack is free"),
        pytest.param(FULL, {}, NoPlanReason.TOO_LITTLE_FREE, id="nothing is free"),
        pytest.param(
            {key: replace(one, moves=NO_TERMS) for key, one in TWO.items()}, {}, NoPlanReason.NOT_MOVABLE, id="no terms"
        ),
        pytest.param(
            {key: replace(one, evicted=True) for key, one in TWO.items()}, {}, NoPlanReason.NOT_MOVABLE, id="evicted"
        ),
        pytest.param(
            {key: replace(one, ran=599) for key, one in TWO.items()}, {}, NoPlanReason.NOT_MOVABLE, id="just started"
        ),
        pytest.param(WALL, {}, NoPlanReason.NO_OTHER_PLACE, id="a mover's only place is the gang's"),
        pytest.param(TWO, {"left": {"q": 0}}, NoPlanReason.NOT_MOVABLE, id="a budget of no moves"),
        pytest.param(
            TWO, {"wait": 10.0}, NoPlanReason.TOO_EXPENSIVE, id="the gang could wait less than the moves cost"
        ),
        pytest.param(TWO, {"budget": 0}, NoPlanReason.BUDGET, id="no work allowed"),
    ],
)
def test_why_there_is_no_plan(runs: Mapping[str, Running], options: dict[str, object], why: NoPlanReason) -> None:
    assert reason(plan(cluster(runs), gang(), NOW, PlanOptions(**options))) is why  # type: ignore[arg-type]


def test_who_stays_is_counted_on_the_gangs_flavor_alone() -> None:
    ledger = cluster({key: replace(one, moves=NO_TERMS) for key, one in TWO.items()}, own())
    for event in (racks("other"), host("x0", "r9", 4, "other")):
        ledger.apply(event)
    workload = ledger.workload("a")
    assert workload is not None
    assert workload.admission is not None
    (got,) = workload.admission.pod_sets
    elsewhere = replace(got, flavors={"cpu": "other"}, assignment=Assignment((HOST,), (DomainCount(("x0",), 1),)))
    ledger.apply(replace(workload, key="ns/far", admission=replace(workload.admission, pod_sets=(elsewhere,))))
    found = plan(ledger, gang(), NOW)
    assert isinstance(found, NoPlan)
    assert found.stays == {"not declared movable": 2}


def test_a_gang_that_waits_for_quota_is_not_helped() -> None:
    found = plan(cluster(TWO, own(9)), gang(), NOW)
    assert reason(found) is NoPlanReason.QUOTA


def test_a_gang_that_no_rack_can_hold_is_not_helped() -> None:
    assert reason(plan(cluster(TWO), gang(3), NOW)) is NoPlanReason.NEVER


def test_gangs_that_start_together_are_not_planned_for() -> None:
    together = replace(gang(), gang=Gang("uid-gang", ("ns/gang", "ns/other")))
    assert reason(plan(cluster(TWO), together, NOW)) is NoPlanReason.NOT_COUNTED


def test_a_queue_makes_no_more_moves_than_it_has_left() -> None:
    pairs = {f"{name}{host}": Running({host: 1}) for name, host in (("a", "h0"), ("b", "h1"), ("c", "h2"), ("d", "h3"))}
    assert reason(plan(cluster(pairs), gang(), NOW, PlanOptions({"q": 1}))) is not None
    assert len(moved(plan(cluster(pairs), gang(), NOW, PlanOptions({"q": 2})))) == 2


def test_a_mover_keeps_what_it_requires() -> None:
    runs = {
        "pair": Running({"h0": 1, "h1": 1}, cpus=2, topology=ONE_RACK),
        "b": Running({"h2": 2}, cpus=2, moves=NO_TERMS),
        "c": Running({"h4": 2}, cpus=1, moves=NO_TERMS),
        "d": Running({"h5": 1}, cpus=3, moves=NO_TERMS),
    }
    found = moved(plan(cluster(runs, count=3), gang(), NOW))
    assert found == {"pair": {"h3": 2}}


def test_it_moves_to_no_node_that_its_selector_excludes() -> None:
    ledger = cluster({})
    for index in range(4):
        labels = {"pool": "tas", RACK: f"r{index // 2}", HOST: f"h{index}", "disk": "fast" if index < 2 else "slow"}
        ledger.apply(Node(f"h{index}", labels, {"cpu": 4000, "pods": 110}))
    other = cluster({"a": Running({"h0": 1}), "b": Running({"h2": 1}, moves=NO_TERMS)})
    for key in ("a", "b"):
        workload = other.workload(key)
        assert workload is not None
        wanted = tuple(replace(each, node_selector={"disk": "fast"}) for each in workload.pod_sets)
        ledger.apply(replace(workload, pod_sets=wanted if key == "a" else workload.pod_sets))
    assert reason(plan(ledger, gang(), NOW)) is NoPlanReason.NO_OTHER_PLACE


def test_a_gang_of_a_leader_and_workers_is_placed_whole() -> None:
    group = TopologyRequest(required=RACK, group="both")
    pod_sets = (PodSet("leader", 1, {"cpu": 4000}, topology=group), PodSet("worker", 1, {"cpu": 4000}, topology=group))
    found = plan(cluster(TWO), replace(gang(), pod_sets=pod_sets), NOW)
    assert isinstance(found, MovePlan)
    assert found.admission is not None
    assert {got.name for got in found.admission.pod_sets if got.assignment is not None} == {"leader", "worker"}


def test_the_ledger_is_as_before() -> None:
    ledger = cluster(TWO)
    generation, admissions = ledger.generation("tas"), dict(ledger.admissions)
    plan(ledger, gang(), NOW)
    vacate(ledger, "tas", RACK, NOW)
    assert (ledger.generation("tas"), ledger.admissions, ledger.audit()) == (generation, admissions, [])


# ---- a whole domain


def test_the_cheapest_domain_is_made_free() -> None:
    found = vacate(cluster(TWO), "tas", RACK, NOW)
    assert moved(found) == {"b": {"h0": 1}}
    assert isinstance(found, MovePlan)
    assert found.domain == ("r1",)
    assert found.certificate.proof is Proof.OPTIMAL


def test_a_free_domain_is_not_exchanged_for_another() -> None:
    """Two of three racks are in use: the movers of one go into the other, though the third is free."""
    ledger = cluster(TWO, racks_of=1, count=3)
    found = vacate(ledger, "tas", RACK, NOW)
    assert moved(found) == {"b": {"h0": 1}}
    assert ledger.audit() == []


@pytest.mark.parametrize(
    ("runs", "level", "left", "why"),
    [
        pytest.param({"b": Running({"h2": 1})}, RACK, {}, NoPlanReason.NO_OTHER_PLACE, id="the other rack is free"),
        pytest.param(TWO, "row", {}, NoPlanReason.NEVER, id="no such level"),
        pytest.param({}, RACK, {}, NoPlanReason.NOT_MOVABLE, id="all are free"),
        pytest.param(FULL, RACK, {}, NoPlanReason.NO_OTHER_PLACE, id="nothing is free"),
        pytest.param(TWO, RACK, {"q": 0}, NoPlanReason.NOT_MOVABLE, id="a budget of no moves"),
    ],
)
def test_why_no_domain_is_made_free(
    runs: Mapping[str, Running], level: str, left: Mapping[str, int], why: NoPlanReason
) -> None:
    assert reason(vacate(cluster(runs), "tas", level, NOW, PlanOptions(left))) is why
