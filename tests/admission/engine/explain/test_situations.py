"""Explanations of made situations: the condition's own words, remedies that hold when applied, verdicts that are true."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from admission.engine.decision import Wait
from admission.engine.explain.changes import (
    AddNodes,
    Change,
    CoverResource,
    DropSelector,
    FewerPods,
    Finish,
    LowerMinimum,
    LowerRequest,
    NameLevel,
    RaiseQuota,
    RelaxTopology,
    Remedy,
    RequestResource,
    SoftenConstraint,
    Tolerate,
)
from admission.engine.explain.explain import explain
from admission.engine.explain.explanation import (
    Explanation,
    Verdict,
)
from admission.engine.explain.wording import headline, level_text
from admission.engine.model import PreemptionPolicy, Taint
from admission.engine.reasons import Reason
from tests.admission.engine.builders import CPU, HOST, RACK, Cluster, host, queue, racks, waits, workload
from tests.admission.engine.dump import dump
from tests.admission.engine.explain import situations
from tests.admission.engine.explain.applied_remedies import admits, one_less
from tests.admission.engine.explain.bruteforce import could_run
from tests.admission.engine.explain.situations import MAINTENANCE, SITUATIONS, W

Make = Callable[[], Cluster]
each = pytest.mark.parametrize("make", SITUATIONS, ids=lambda make: make.__name__)


def explained(cluster: Cluster) -> Explanation:
    """The waiting workload's explanation."""
    waiting = cluster.queues.workload(W)
    assert waiting is not None
    return explain(cluster.ledger, waiting, 0.0)


@each
def test_it_says_what_the_condition_says_and_leaves_the_ledger_as_it_was(make: Make) -> None:
    cluster = make()
    before = dump(cluster.ledger)
    found = explained(cluster)
    assert dump(cluster.ledger) == before
    assert cluster.ledger.audit() == []
    report = cluster.cycle()
    assert waits(report) == {W: f"{found.reason}: {found.message}"}
    [wait] = report.decisions
    assert isinstance(wait, Wait)
    assert wait.never == (found.verdict is Verdict.CANNOT_RUN), "the verdict comes with the decision"
    assert found.complete
    assert explained(make()) == found, "the same cluster is explained the same way"


@functools.cache
def explanation_of(make: Make) -> Explanation:
    """Of a situation freshly made."""
    return explained(make())


@each
def test_every_remedy_applied_admits_the_workload(make: Make) -> None:
    for remedy in explanation_of(make).remedies:
        cluster = make()
        waiting = cluster.queues.workload(W)
        assert waiting is not None
        assert admits(cluster, waiting, remedy), remedy


@each
def test_a_little_less_than_a_remedy_does_not_do(make: Make) -> None:
    for remedy in explanation_of(make).remedies:
        for index, change in enumerate(remedy.changes):
            less = one_less(change)
            if less is not None:
                cluster = make()
                waiting = cluster.queues.workload(W)
                assert waiting is not None
                changes = (*remedy.changes[:index], less, *remedy.changes[index + 1 :])
                assert not admits(cluster, waiting, Remedy(changes)), (remedy, less)


@each
def test_what_cannot_run_has_no_place_in_an_empty_cluster_however_it_is_tried(make: Make) -> None:
    cluster = make()
    waiting = cluster.queues.workload(W)
    assert waiting is not None
    assert (explained(cluster).verdict is Verdict.CANNOT_RUN) == (not could_run(cluster.ledger, waiting))


@pytest.mark.parametrize(
    ("make", "verdict", "codes", "kinds"),
    [
        pytest.param(
            situations.full_racks,
            Verdict.WAITS,
            {Reason.TOPOLOGY_PLACEMENT_FAILED, Reason.INSUFFICIENT_RESOURCE, Reason.ADMITTED_WORKLOADS},
            [Finish(("ns/s0",)), LowerRequest("main", "cpu", CPU, 400), FewerPods("main", 5, 2)],
            id="full racks",
        ),
        pytest.param(
            situations.rack_too_small,
            Verdict.CANNOT_RUN,
            {Reason.CANNOT_RUN, Reason.INSUFFICIENT_RESOURCE},
            [RelaxTopology(("main",), "rack", "block", True)],
            id="rack too small",
        ),
        pytest.param(
            situations.borrowed_away,
            Verdict.WAITS,
            {Reason.WAITING_FOR_QUOTA},
            [Finish(("ns/b2",)), RaiseQuota("q", "tas", "cpu", 3 * CPU, 11 * CPU)],
            id="borrowed away",
        ),
        pytest.param(
            situations.beyond_all_quota,
            Verdict.CANNOT_RUN,
            {Reason.EXCEEDS_MAX_QUOTA, Reason.CANNOT_RUN},
            [RaiseQuota("q", "tas", "cpu", CPU, 7 * CPU)],
            id="beyond all quota",
        ),
        pytest.param(
            situations.foreign,
            Verdict.CANNOT_RUN,
            {Reason.FOREIGN_PODS, Reason.INSUFFICIENT_RESOURCE},
            [AddNodes("tas", "r01-0", ("block", "rack"), ("b0", "r01"), (("cpu", CPU // 2), ("pods", 1)), 1)],
            id="foreign pods",
        ),
        pytest.param(
            situations.tainted, Verdict.CANNOT_RUN, {Reason.UNTOLERATED_TAINT}, [Tolerate(MAINTENANCE)], id="tainted"
        ),
        pytest.param(
            situations.reserved,
            Verdict.WAITS,
            {Reason.HELD_NODE},
            [LowerRequest("main", "cpu", 1000, 571)],
            id="reserved",
        ),
        pytest.param(
            situations.a_little_memory,
            Verdict.CANNOT_RUN,
            {Reason.INSUFFICIENT_RESOURCE},
            [LowerRequest("main", "memory", 4 << 30, 15 << 28)],
            id="a little memory",
        ),
        pytest.param(
            situations.torn_slices, Verdict.WAITS, {Reason.FRAGMENTED}, [Finish(("ns/u0",))], id="torn slices"
        ),
        pytest.param(
            situations.requests_nothing,
            Verdict.CANNOT_RUN,
            {Reason.NO_MATCHING_FLAVOR},
            [RequestResource("q", ("main",), "cpu", 1)],
            id="requests nothing",
        ),
        pytest.param(
            situations.constrained,
            Verdict.CANNOT_RUN,
            {Reason.CONSTRAINED},
            [SoftenConstraint("main", "rack")],
            id="constrained",
        ),
        pytest.param(
            situations.partial_capacity,
            Verdict.WAITS,
            {Reason.TOPOLOGY_PLACEMENT_FAILED, Reason.INSUFFICIENT_RESOURCE},
            [Finish(("ns/a",)), LowerMinimum("main", 5, 2), LowerRequest("main", "cpu", CPU, 333)],
            id="room for fewer than its minimum",
        ),
        pytest.param(
            situations.partial_quota,
            Verdict.WAITS,
            {Reason.WAITING_FOR_QUOTA},
            [Finish(("ns/a",)), LowerMinimum("main", 4, 3), RaiseQuota("q", "tas", "cpu", CPU, 11 * CPU)],
            id="quota for fewer than its minimum",
        ),
        pytest.param(
            situations.partial_two_flavors,
            Verdict.CANNOT_RUN,
            {Reason.EXCEEDS_MAX_QUOTA},
            [LowerMinimum("main", 3, 2), RaiseQuota("q", "far", "cpu", CPU, 3 * CPU)],
            id="two flavors for fewer than its minimum",
        ),
        pytest.param(situations.no_nodes, Verdict.CANNOT_RUN, {Reason.NO_DOMAINS}, [], id="no nodes"),
        pytest.param(
            situations.no_such_level,
            Verdict.CANNOT_RUN,
            {Reason.LEVEL_MISMATCH},
            [NameLevel(("main",), "row", "rack"), NameLevel(("main",), "row", "block")],
            id="no such level",
        ),
        pytest.param(
            situations.no_such_slice_level,
            Verdict.CANNOT_RUN,
            {Reason.LEVEL_MISMATCH},
            [NameLevel(("main",), "row", HOST), NameLevel(("main",), "row", RACK)],
            id="no such level of slices",
        ),
        pytest.param(
            situations.uncovered,
            Verdict.CANNOT_RUN,
            {Reason.NO_MATCHING_FLAVOR},
            [CoverResource("q", "nvidia.com/gpu", 8, ("tas",), ("cpu",))],
            id="uncovered resource",
        ),
        pytest.param(
            situations.uncovered_elsewhere,
            Verdict.CANNOT_RUN,
            {Reason.NO_MATCHING_FLAVOR},
            [CoverResource("q", "example.com/licence", 2, ("licences",))],
            id="uncovered resource in a group of its own",
        ),
    ],
)
def test_it_names_verdict_codes_and_the_remedy_that_one_would_look_for(
    make: Make, verdict: Verdict, codes: set[Reason], kinds: list[object]
) -> None:
    found = explanation_of(make)
    assert found.verdict is verdict
    assert codes <= set(found.codes)
    changes = [change for remedy in found.remedies for change in remedy.changes if len(remedy.changes) == 1]
    assert [change for change in kinds if change not in changes] == []
    assert bool(found.remedies) == bool(kinds)


def test_an_unknown_level_is_answered_with_those_that_exist() -> None:
    [flavor] = explanation_of(situations.no_such_level).flavors
    assert flavor.message == (
        'Flavor "tas" does not contain the requested level: row (its levels are block, rack, kubernetes.io/hostname)'
    )


def test_an_uncovered_resource_is_answered_with_queue_and_group() -> None:
    assert headline(explanation_of(situations.uncovered)).endswith(
        "would be admitted if ClusterQueue q covered nvidia.com/gpu in the resource group of cpu (nominalQuota 8 in tas)"
    )
    changes = [remedy.changes for remedy in explanation_of(situations.uncovered_and_no_quota).remedies]
    cover = CoverResource("q", "nvidia.com/gpu", 8, ("tas",), ("cpu",))
    assert (cover, Finish(("ns/b",))) in changes
    assert all(cover in remedy for remedy in changes)


@pytest.mark.parametrize(
    ("make", "changes"),
    [
        pytest.param(
            situations.tainted_and_selected, (Tolerate(MAINTENANCE), DropSelector("disk", "ssd")), id="taint, selector"
        ),
        pytest.param(
            situations.two_taints, (Tolerate(Taint("gpu", "NoSchedule")), Tolerate(MAINTENANCE)), id="two taints"
        ),
    ],
)
def test_what_stands_in_the_way_together_is_named_together(make: Make, changes: tuple[Change, ...]) -> None:
    assert explanation_of(make).remedies[0] == Remedy(changes)


def test_where_quota_and_capacity_are_short_a_remedy_names_both() -> None:
    found = explanation_of(situations.quota_and_capacity)
    both = [remedy for remedy in found.remedies if len(remedy.changes) == 2]
    assert [{type(change) for change in remedy.changes} for remedy in both] == [
        {RaiseQuota, RelaxTopology},
        {RaiseQuota, AddNodes},
    ]


def test_the_levels_say_what_the_best_domain_offers_and_what_uses_it() -> None:
    [flavor] = explanation_of(situations.full_racks).flavors
    [pod_set] = flavor.pod_sets
    views = [(view.level, view.domain, view.fits, view.everywhere, view.asked) for view in pod_set.levels]
    assert views == [
        ("block", ("b0",), 4, 4, False),
        ("rack", ("b0", "r00"), 2, 4, True),
        ("kubernetes.io/hostname", ("b0", "r00", "r00-1"), 2, 4, False),
    ]
    [shortage] = pod_set.levels[1].shortages
    assert (shortage.asked, shortage.free, shortage.pods, shortage.short) == (5 * CPU, 2 * CPU, 2, 3 * CPU)
    assert [(taker.name, taker.amount) for taker in shortage.takers] == [("ns/a", 6 * CPU)]


def test_what_is_free_but_torn_is_fragmented_and_not_insufficient() -> None:
    """As the code is defined, whole pods included."""
    found = explanation_of(situations.torn_pods)
    assert {Reason.FRAGMENTED, Reason.ADMITTED_WORKLOADS} <= set(found.codes)
    [flavor] = found.flavors
    rack = flavor.pod_sets[0].levels[1]
    [torn] = rack.torn
    assert (rack.fragmented, rack.shortages, rack.fits) == (True, (), 2)
    assert (torn.asked, torn.free, torn.pods) == (6 * CPU, 6 * CPU, 2)
    assert headline(found).startswith(
        "flavor tas: rack b0/r00 holds 2 of 3 pods (enough is free, but not together; cpu: 6 free, on single nodes for 2 pods)"
    )


def test_excluded_nodes_are_counted_with_their_free_capacity() -> None:
    [flavor] = explanation_of(situations.tainted).flavors
    whole = flavor.pod_sets[0].levels[0]
    assert [(e.code, e.what, e.nodes, e.pods) for e in whole.exclusions] == [
        (Reason.UNTOLERATED_TAINT, "maintenance=soon:NoSchedule", 2, 8)
    ]
    assert Taint(key="maintenance", effect="NoSchedule", value="soon") == MAINTENANCE


def test_of_many_taints_those_of_most_nodes_are_named_and_the_others_counted() -> None:
    teams = [f"team-{number:03d}" for number in range(300)]
    nodes = [
        replace(host(f"{team}-{at}", "r1", 2), taints=(Taint(key=team, effect="NoSchedule"),))
        for team in teams
        for at in range(2 if team == "team-299" else 1)
    ]
    cluster = situations.waiting(racks(), *nodes, queue(tas=100))
    [flavor] = explained(cluster).flavors
    rack = flavor.pod_sets[0].levels[0]
    exclusions = [(e.what, e.nodes, e.pods, e.more) for e in rack.exclusions]
    assert exclusions[:2] == [("team-000:NoSchedule", 1, 2, 0), ("team-001:NoSchedule", 1, 2, 0)]
    assert exclusions[15:] == [("team-299:NoSchedule", 2, 4, 0), ("284 more taints", 284, 568, 284)]
    text = level_text(rack)
    assert text.endswith("; 284 nodes excluded by 284 more taints (room for 568))")
    assert len(text) < 1500


@pytest.mark.parametrize(("pods", "least", "never"), [(5, None, True), (5, 4, False), (4, None, False), (9, 5, True)])
def test_that_no_flavor_ever_holds_it_is_said_by_decision_and_explanation(
    pods: int, least: int | None, never: bool
) -> None:
    full = workload("ns/full", 4, topology=situations.IN_A_RACK, priority=9)
    pod_set = replace(full.pod_sets[0], count=pods, min_count=least)
    waiting = replace(full, key=W, priority=1, queued=9.0, pod_sets=(pod_set,))
    nodes = [host("a", "r1", 4, "first"), host("b", "r1", 3, "second")]
    evicting = replace(queue(first=100, second=100), preemption=PreemptionPolicy("Any", "LowerPriority"))
    cluster = situations.beside(waiting, racks("first"), racks("second"), *nodes, evicting, full)
    [decision] = cluster.cycle().decisions
    assert isinstance(decision, Wait)
    assert decision.never is never
    assert (explained(cluster).verdict is Verdict.CANNOT_RUN) is never


def test_the_quota_view_names_the_borrowers() -> None:
    [flavor] = explanation_of(situations.borrowed_away).flavors
    [view] = flavor.quota
    assert (view.asked, view.nominal, view.available, view.most, view.short) == (7000, 8000, 4000, 12000, 3000)
    assert [(user.cluster_queue, user.amount, user.borrowed) for user in view.users] == [("other", 8000, 4000)]
    assert [(taker.name, taker.amount) for taker in view.workloads] == [("ns/b1", 5000), ("ns/b2", 3000)]


def test_the_line_for_people() -> None:
    assert headline(explanation_of(situations.full_racks)) == (
        "flavor tas: rack b0/r00 holds 2 of 5 pods (cpu: 2 free, 3 short); would be admitted if ns/s0 finished, "
        "or if each pod of main asked for 400m cpu, not 1, or if main had 2 pods instead of 5"
    )
    assert headline(explanation_of(situations.no_nodes)) == (
        "cannot run as it is: it would not fit even if no other workload were admitted"
    )


@pytest.mark.parametrize("budget", [0, 1, 7, 40])
def test_a_small_budget_shortens_the_list_and_says_so(budget: int) -> None:
    cluster, whole = situations.quota_and_capacity(), explanation_of(situations.quota_and_capacity)
    waiting = cluster.queues.workload(W)
    assert waiting is not None
    found = explain(cluster.ledger, waiting, 0.0, budget=budget)
    assert (found.flavors, found.reason) == (whole.flavors, whole.reason)
    assert len(found.remedies) <= len(whole.remedies)
    assert found.complete == (found.remedies == whole.remedies)
    for remedy in found.remedies:
        assert admits(situations.quota_and_capacity(), waiting, remedy)


def test_every_reason_code_has_a_meaning_and_those_of_explanations_stand_in_the_docs() -> None:
    page = (Path(__file__).parents[4] / "docs" / "explain.md").read_text()
    assert all(code.__doc__ for code in Reason)
    own = list(Reason)[list(Reason).index(Reason.CANNOT_RUN) :]
    assert [code for code in own if f"| `{code}` | {code.__doc__} |" not in page] == []
