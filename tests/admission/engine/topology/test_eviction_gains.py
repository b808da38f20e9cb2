"""What workloads would leave, lifted or counted, is what there is when they have really left."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.admission.engine.dump import dump
from tests.admission.engine.preemption.drawn_clusters import DrawnCluster, scenes
from tests.budgets import examples

few = settings(
    max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


@settings(few, max_examples=examples(30))
@given(scenes(), st.data())
def test_lifting_frees_what_leaving_frees(scene: DrawnCluster, data: st.DataObject) -> None:
    ledger, before = scene.ledger, dump(scene.ledger)
    gone = data.draw(st.lists(st.sampled_from([w.key for w in scene.running]), unique=True))
    with ledger.trial():
        for key in gone:
            ledger.remove_with_pods(key)
        left = {name: dump(ledger)["trees"][name] for name in dump(ledger)["trees"]}
    with ledger.trial():
        for key in gone:
            ledger.simulate_removal(key)
        assert dump(ledger)["trees"] == left
        for key in gone:
            ledger.undo_removal(key)
        assert dump(ledger)["trees"] == before["trees"]
    assert dump(ledger) == before


@few
@given(scenes(), st.data())
def test_counting_agrees_with_placing(scene: DrawnCluster, data: st.DataObject) -> None:
    ledger, requests = scene.ledger, scene.requests()
    keys = [workload.key for workload in scene.running]
    eviction_gains = ledger.placement.eviction_gains(requests, keys) if requests else None
    if eviction_gains is None:
        return
    assert eviction_gains.domains, "there is room when everybody has left"
    gone: set[str] = set()
    for key in data.draw(st.lists(st.sampled_from(keys), max_size=8)):
        if key in gone:
            gone.discard(key)
            eviction_gains.bring_back(key)
        else:
            gone.add(key)
            eviction_gains.evict(key)
        with ledger.trial():
            for each in sorted(gone):
                ledger.remove_with_pods(each)
            fits = ledger.placement.place(requests).fits
        room = [one for one in eviction_gains.domains if not one.missing]
        assert fits <= eviction_gains.enough == bool(room)
        assert fits <= any(one.slices is None or not one.slices.missing for one in room)
        assert fits == eviction_gains.enough or not eviction_gains.exact


@few
@given(scenes(), st.data())
def test_all_domains_at_once_are_counted_like_one_after_the_other(scene: DrawnCluster, data: st.DataObject) -> None:
    ledger, requests = scene.ledger, scene.requests()
    keys = [workload.key for workload in scene.running]
    gains = ledger.placement.eviction_gains(requests, keys) if requests else None
    if gains is None:
        return
    gone = data.draw(st.lists(st.sampled_from(keys), unique=True))
    at_once = gains.enough_after(gone)
    narrowed = gains.after(gone, set(at_once))
    assert {domain.slot for domain in narrowed.domains if not domain.missing} == set(at_once)
    assert narrowed.enough == bool(at_once)
    for key in gone:
        narrowed.bring_back(key)
    in_turn = {domain.slot: 0 for domain in gains.domains if not domain.missing}
    for number, key in enumerate(gone, 1):
        gains.evict(key)
        for domain in gains.domains:
            if not domain.missing:
                in_turn.setdefault(domain.slot, number)
    assert at_once == in_turn


@settings(few, max_examples=examples(8))
@given(scenes())
def test_a_place_that_holds_is_a_place(scene: DrawnCluster) -> None:
    ledger, requests = scene.ledger, scene.requests()
    keys = [workload.key for workload in scene.running]
    with ledger.trial():
        for key in keys:
            ledger.simulate_removal(key)
        found = ledger.placement.place(requests)
        standing = ledger.placement.check(requests, found.assignments)
        assert not requests or standing.holds()
        for key in keys:
            ledger.undo_removal(key)
            assert not standing.holds() or ledger.placement.place(requests).fits
