"""For all chosen victims: the preemptor fits without them and not without fewer, by right, and the ledger is as it was."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from admission.engine.decision import PreemptionReason, Proof
from admission.engine.model import Profile
from admission.engine.preemption.candidates import find, find_for_fairness
from admission.engine.preemption.cheapest import cheapest
from admission.engine.preemption.classical import attempts, classical, in_turn
from admission.engine.preemption.cost import FREE, Cost, cost_of
from admission.engine.preemption.fair import fair
from admission.engine.preemption.preemptor import Preemptor
from admission.engine.preemption.removal import PreemptionTarget, TrialRemoval, gains_of
from admission.engine.quota.fairness import FairSharingRules, FairStrategy
from tests.admission.engine.dump import dump
from tests.admission.engine.preemption.drawn_clusters import NOW, DrawnCluster, scenes
from tests.budgets import quick

AMPLE = 10**6


def few(examples: int) -> settings:
    """So many examples; a scene is a whole cluster, drawn at leisure."""
    slow = [HealthCheck.too_slow, HealthCheck.filter_too_much]
    return settings(max_examples=examples, deadline=None, suppress_health_check=slow)


def keys(targets: list[PreemptionTarget] | tuple[PreemptionTarget, ...]) -> list[str]:
    return [one.candidate.key for one in targets]


def modes(scene: DrawnCluster) -> set[bool]:
    """Whether victims may be sought with borrowing, without, or both ways."""
    return set(attempts(scene.context(), find(scene.ledger, scene.context())))


def check(
    scene: DrawnCluster, targets: list[PreemptionTarget] | tuple[PreemptionTarget, ...], *, by_right: bool = True
) -> None:
    """There is a way of asking (with borrowing or without) by which all is as it must be."""
    victims = keys(targets)
    assert len(set(victims)) == len(victims)
    ordered = [c for c in find(scene.ledger, scene.context()).in_order if c.key in victims]
    ways = [
        borrowing
        for borrowing in ((True, False) if by_right else (True,))
        if scene.fits_without(victims, borrowing=borrowing)
        and not any(scene.fits_without([k for k in victims if k != one], borrowing=borrowing) for one in victims)
        and (not by_right or (len(ordered) == len(victims) and scene.allowed_together(ordered, borrowing=borrowing)))
    ]
    assert ways, "fits, nobody is there for nothing, and nobody goes who is protected"


@few(quick(8))
@given(scenes(profile=Profile.COMPATIBLE))
def test_kueues_victims_free_enough_and_the_search_leaves_no_trace(scene: DrawnCluster) -> None:
    before = dump(scene.ledger)
    targets = classical(scene.ledger, scene.context())
    assert dump(scene.ledger) == before
    assert scene.ledger.audit() == []
    if targets:
        check(scene, targets)


@few(quick(8))
@given(scenes())
def test_places_counted_at_once_give_the_victims_that_removing_one_by_one_gives(scene: DrawnCluster) -> None:
    ledger, context = scene.ledger, scene.context()
    candidates = find(ledger, context)
    ordered = candidates.in_order
    gains = gains_of(ledger, context, ordered)
    for borrowing in attempts(context, candidates):
        with TrialRemoval(ledger, context, gains, borrowing=borrowing) as removal:
            if not removal.placement_is_cheap:
                return
            targets = (PreemptionTarget(one, one.variant.claim) for one in in_turn(context, ordered, borrowing))
            in_order = keys(removal.reprieve(removal.remove_until_fit(targets)))
        with TrialRemoval(ledger, context, gains, borrowing=borrowing) as removal:
            own = len(candidates.own) == len(ordered)
            evictable = ordered if own else in_turn(context, ordered, borrowing)
            assert keys(removal.reprieve(removal.remove_until_counted(evictable, own=own))) == in_order
    assert ledger.audit() == []


@few(quick(8))
@given(scenes())
def test_the_cheapest_victims_suffice_and_cost_no_more_than_kueues(scene: DrawnCluster) -> None:
    before = dump(scene.ledger)
    choice = cheapest(scene.ledger, scene.context(), AMPLE)
    assert dump(scene.ledger) == before
    assert scene.ledger.audit() == []
    kueue_choice = classical(scene.ledger, scene.context())
    if choice.targets:
        check(scene, choice.targets)
        assert choice.certificate.cost == cost(choice.targets)
        if kueue_choice:
            assert cost(choice.targets) <= cost(kueue_choice)
    else:
        assert not kueue_choice


def cost(targets: list[PreemptionTarget] | tuple[PreemptionTarget, ...]) -> Cost:
    return cost_of((one.candidate.workload for one in targets), NOW)


@few(quick(8))
@given(scenes())
def test_no_set_costs_less(scene: DrawnCluster) -> None:
    choice = cheapest(scene.ledger, scene.context(), AMPLE)
    least = min(
        (
            cost_of((c.workload for c in chosen), NOW)
            for borrowing in modes(scene)
            for chosen in scene.allowed_sets(borrowing=borrowing)
            if chosen and scene.fits_without([c.key for c in chosen], borrowing=borrowing)
        ),
        default=None,
    )
    if least is None:
        assert choice.targets == ()
        assert choice.certificate.proof is Proof.INFEASIBLE
    else:
        assert cost(choice.targets) == least
        assert choice.certificate.proof is Proof.OPTIMAL
        assert choice.certificate.bound == least


@few(quick(15))
@given(scenes(), st.integers(0, 12))
def test_a_small_budget_is_reported_and_its_bound_holds(scene: DrawnCluster, budget: int) -> None:
    hasty = cheapest(scene.ledger, scene.context(), budget)
    thorough = cheapest(scene.ledger, scene.context(), AMPLE)
    if hasty.targets:
        check(scene, hasty.targets)
        assert cost(thorough.targets) <= cost(hasty.targets)
        assert hasty.certificate.bound <= cost(thorough.targets)
    if hasty.certificate.proof is Proof.OPTIMAL:
        assert cost(hasty.targets) == cost(thorough.targets)
    if hasty.certificate.proof is Proof.INFEASIBLE:
        assert thorough.targets == ()


@few(quick(15))
@given(
    scenes(profile=Profile.COMPATIBLE),
    st.sampled_from([(FairStrategy.FINAL_SHARE,), (FairStrategy.INITIAL_SHARE,), tuple(FairStrategy)]),
)
def test_fair_victims_free_capacity_and_the_search_changes_nothing(
    scene: DrawnCluster, strategies: tuple[FairStrategy, ...]
) -> None:
    before = dump(scene.ledger)
    targets = fair(scene.ledger, scene.context(), FairSharingRules(strategies))
    assert dump(scene.ledger) == before
    assert scene.ledger.audit() == []
    if targets:
        check(scene, targets, by_right=False)
        allowed = {c.key for c in find_for_fairness(scene.ledger, scene.context())}
        assert set(keys(targets)) <= allowed
        own = {one.candidate.key for one in targets if one.candidate.node.name == "a"}
        assert {one.candidate.key for one in targets if one.claim is PreemptionReason.IN_CLUSTER_QUEUE} == own


@pytest.mark.parametrize("profile", [Profile.EXACT, Profile.COMPATIBLE])
@few(quick(8))
@given(data=st.data())
def test_the_same_question_has_the_same_answer(profile: Profile, data: st.DataObject) -> None:
    scene = data.draw(scenes(profile=profile))
    inquiry = Preemptor(scene.ledger, NOW).about(scene.head)
    assert inquiry.targets(scene.head, scene.assignment) == inquiry.targets(scene.head, scene.assignment)


def test_no_victims_cost_less_than_any() -> None:
    assert min(Cost(-(2**31), 1, 1, 0, 0), FREE) == FREE
