"""Who goes in cases that one can follow with a pencil: small_clusters.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from admission.engine.decision import PreemptionReason, Proof
from admission.engine.flavors.assign import Mode
from admission.engine.model import BoundPod, Cohort, PreemptionPolicy, Profile, TopologyRequest
from admission.engine.preemption.preemptor import Preemptor
from admission.engine.preemption.projected_quota import ProjectedQuota
from admission.engine.preemption.wording import eviction_message, path, preempted_event
from admission.engine.quota.fairness import FairSharingRules
from tests.admission.engine.builders import CPU, HOST
from tests.admission.engine.preemption.small_clusters import (
    LOWER,
    NOW,
    RECLAIM,
    RunningWorkload,
    cluster,
    inquiry,
    own,
    victims,
)

SCATTERED = {
    "left": RunningWorkload({"h0": 4}, since=9_900.0),
    "right": RunningWorkload({"h2": 4}, since=9_800.0),
    "left-too": RunningWorkload({"h1": 4}, since=9_000.0),
    "right-too": RunningWorkload({"h3": 4}, since=9_100.0),
}


@pytest.mark.parametrize(
    ("runs", "pods", "cpus", "wanted"),
    [
        pytest.param(SCATTERED, 2, 4, ["right", "right-too"], id="both of one rack, of which less work is lost"),
        pytest.param(SCATTERED, 1, 4, ["left"], id="one host will do: the newest"),
        pytest.param(
            {**SCATTERED, "left-too": RunningWorkload({"h1": 4}, priority=3)},
            2,
            4,
            ["right", "right-too"],
            id="not the important",
        ),
        pytest.param(
            {
                "long": RunningWorkload({"h0": 4, "h1": 4}, since=0.0),
                "x": RunningWorkload({"h2": 4}),
                "y": RunningWorkload({"h3": 4}),
            },
            2,
            4,
            ["long"],
            id="one gang rather than two, however long it ran",
        ),
        pytest.param(
            {
                "long": RunningWorkload({"h0": 4, "h1": 4}, priority=1),
                "x": RunningWorkload({"h2": 4}),
                "y": RunningWorkload({"h3": 4}),
            },
            2,
            4,
            ["x", "y"],
            id="two gangs rather than an important one",
        ),
        pytest.param(
            {
                "x": RunningWorkload({"h0": 2}),
                "y": RunningWorkload({"h0": 2}),
                "z": RunningWorkload({"h1": 3}, priority=1),
                "w": RunningWorkload({"h2": 4, "h3": 4}, 2),
            },
            1,
            3,
            ["x", "y"],
            id="two halves of a host rather than one of higher priority",
        ),
        pytest.param(
            {**SCATTERED, "left": RunningWorkload({"h0": 4}, 9, evicted=True)},
            1,
            4,
            ["left"],
            id="who is leaving anyway, at any priority",
        ),
        pytest.param(
            {**SCATTERED, "left": RunningWorkload({"h0": 4}, 9, evicted=True)},
            2,
            4,
            ["left", "left-too"],
            id="beside one who is leaving, one more",
        ),
        pytest.param(
            {key: replace(one, priority=10) for key, one in SCATTERED.items()},
            1,
            4,
            [],
            id="nobody of the same priority",
        ),
        pytest.param(SCATTERED, 3, 4, [], id="no rack holds it: nobody goes"),
        pytest.param(SCATTERED, 1, 5, [], id="no host holds it: nobody goes"),
    ],
)
def test_victims_free_capacity_of_the_requested_shape(
    runs: Mapping[str, RunningWorkload], pods: int, cpus: int, wanted: list[str]
) -> None:
    assert sorted(victims(cluster(runs), pods, cpus)) == sorted(wanted)


def test_kueues_victims_are_chosen_where_the_queue_requests_it() -> None:
    runs = {
        "long": RunningWorkload({"h0": 4, "h1": 4}, since=0.0),
        "x": RunningWorkload({"h2": 4}),
        "y": RunningWorkload({"h3": 4}),
    }
    ledger = cluster(runs, replace(own(), profile=Profile.COMPATIBLE))
    assert sorted(victims(ledger, 2, 4)) == ["x", "y"]
    assert victims(cluster(runs), 2, 4) == ["long"]


def test_bound_pods_of_a_victim_leave_with_all_that_they_take() -> None:
    ledger = cluster(
        {"x": RunningWorkload({"h0": 2}), "y": RunningWorkload({"h1": 4}), "z": RunningWorkload({"h2": 4, "h3": 4})}
    )
    ledger.apply(BoundPod("side", "h0", {"cpu": 2 * CPU}, "x", "main"))
    ledger.apply(BoundPod("more", "h0", {"cpu": CPU}, "x", "main"))
    ledger.apply(BoundPod("excess", "h0", {"cpu": CPU}, "x", "main"))
    assert victims(ledger, 1, 4) == ["x"]


def test_nothing_is_evicted_where_foreign_pods_take_the_capacity() -> None:
    ledger = cluster(SCATTERED)
    for index in range(4):
        ledger.apply(BoundPod(f"daemon-{index}", f"h{index}", {"cpu": CPU}))
    assert victims(ledger, 1, 4) == []


def test_own_workloads_and_relatives_go_together_where_it_takes_both() -> None:
    runs = {
        "room": RunningWorkload({"h0": 4}, queue="a"),
        "quota": RunningWorkload({"h2": 4}, queue="b"),
        "other": RunningWorkload({"h3": 4}, priority=5, queue="b"),
        "far": RunningWorkload({"h1": 4}, priority=20),
    }
    ledger = cluster(runs, own(12, RECLAIM, cohort="all"), own(4, name="b", cohort="all"))
    assert sorted(victims(ledger, 2, 2, TopologyRequest(required=HOST))) == ["quota"], "of equals Kueue's first"
    assert sorted(victims(ledger, 2, 4, TopologyRequest(unconstrained=True))) == ["quota", "room"]


# ---- reclaiming

BORROWED = {
    "b1": RunningWorkload({"h0": 4}, queue="b", priority=50),
    "b2": RunningWorkload({"h1": 4}, queue="b", priority=60),
}


@pytest.mark.parametrize(
    ("nominal", "policy", "wanted"),
    [
        pytest.param(
            (4, 4), RECLAIM, [("b1", PreemptionReason.IN_COHORT_RECLAMATION)], id="what is lent, whatever the priority"
        ),
        pytest.param((4, 8), RECLAIM, [], id="within its own it is protected"),
        pytest.param((4, 4), PreemptionPolicy("LowerPriority", "LowerPriority"), [], id="only lower priority"),
        pytest.param((4, 4), LOWER, [], id="never from relatives"),
    ],
)
def test_reclaiming(
    nominal: tuple[int, int], policy: PreemptionPolicy, wanted: Sequence[tuple[str, PreemptionReason]]
) -> None:
    mine, theirs = nominal
    ledger = cluster(BORROWED, own(mine, policy, cohort="all"), own(theirs, name="b", cohort="all"), racks_of_two=1)
    about, head, found = inquiry(ledger, 1, 4)
    assert [(victim.workload, victim.claim) for victim in about.targets(head, found)] == wanted


def test_the_oracle_names_the_queues_of_the_victims_and_the_borrowing_level_afterwards() -> None:
    ledger = cluster(BORROWED, own(4, RECLAIM, cohort="all"), own(4, name="b", cohort="all"), racks_of_two=1)
    about, _, _ = inquiry(ledger, 1, 4)
    assert about.simulate("a", ("tas", "cpu"), 4 * CPU) == (Mode.RECLAIM, 0)
    assert about.simulate("a", ("tas", "cpu"), 40 * CPU) == (Mode.NO_CANDIDATES, 1)
    assert about.simulate("missing", ("tas", "cpu"), CPU) == (Mode.NO_CANDIDATES, 0)
    alone = cluster({"x": RunningWorkload({"h0": 4})}, own(4))
    assert inquiry(alone, 1, 4)[0].simulate("a", ("tas", "cpu"), 4 * CPU) == (Mode.PREEMPT, 0)


# ---- what is proved


def test_the_proof_says_whether_the_budget_sufficed() -> None:
    ledger = cluster(SCATTERED)
    _, head, found = inquiry(ledger, 2, 4)
    thorough = Preemptor(ledger, NOW).about(head).choice(head, found)
    hasty = Preemptor(ledger, NOW, budget=0).about(head).choice(head, found)
    assert thorough is not None
    assert hasty is not None
    assert thorough.certificate.proof is Proof.OPTIMAL
    assert hasty.certificate.proof is Proof.FEASIBLE
    assert hasty.certificate.bound <= thorough.certificate.cost <= hasty.certificate.cost


# ---- words


def test_messages_name_the_preemptor_the_right_and_both_places() -> None:
    ledger = cluster({}, own(4, cohort="low"), own(4, name="b", cohort="all"), own(4, name="alone"))
    ledger.apply(Cohort("low", parent="all"))
    _, head, _ = inquiry(ledger, 1, 1)
    assert eviction_message(ledger.quota, head, "b", PreemptionReason.IN_COHORT_RECLAMATION) == (
        "Preempted to accommodate a workload (UID: head, JobUID: job) due to reclamation within the cohort; "
        "preemptor path: /all/low/a; preemptee path: /all/b"
    )
    nameless = replace(head, uid="", job_uid="")
    assert "(UID: UNKNOWN, JobUID: UNKNOWN)" in eviction_message(
        ledger.quota, nameless, "a", PreemptionReason.IN_CLUSTER_QUEUE
    )
    assert path(ledger.quota, "alone") == "/alone"
    assert "effective priority: 10 (base: 10, boost: 0)" in preempted_event(head, head, "a")


@pytest.mark.parametrize(
    "policy", [RECLAIM, replace(RECLAIM, keeps_nominal=True)], ids=["cluster queues", "elastic quotas"]
)
@pytest.mark.parametrize("sharing", [None, FairSharingRules()], ids=["by borrowing", "by shares"])
def test_nobody_is_evicted_because_its_queue_will_use_more_when_a_preemptor_starts(
    policy: PreemptionPolicy, sharing: FairSharingRules | None
) -> None:
    """Queue b runs within its quota; a deferred reservation of b borrows the rest of the cohort's."""
    queues = own(4, policy, cohort="all"), own(4, policy, "b", "all")
    ledger = cluster({"mine": RunningWorkload({"h0": 4}, queue="b")}, *queues)
    reserved, mine = ProjectedQuota(ledger), ledger.admission("mine")
    assert mine is not None
    reserved.take(mine)
    with reserved.held("a"):
        assert victims(ledger, 4, 1, sharing=sharing) == []
    ledger.apply(replace(ledger.workload("mine") or pytest.fail("gone"), key="more", uid="more"))
    assert victims(ledger, 4, 1, sharing=sharing) != [], "as soon as it runs"
