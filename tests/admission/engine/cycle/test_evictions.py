"""Evictions end. The same preemptor has the same victim evicted twice within ten minutes, and then waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from admission.engine.decision import Preempt, Wait
from admission.engine.model import Event, Flavor, Gang, ObjectRemoved, PreemptionPolicy, RemovedKind, Workload
from admission.engine.queue.evictions import A_DAY, GROWTH, MOST, REMEMBERED, TIMES, WITHIN, EvictedPair, Evictions
from admission.engine.quota.fairness import FairSharingRules
from admission.engine.reasons import Reason
from admission.world.snapshot import capture_world, decode, from_snapshot
from admission.world.world import World
from tests.admission.engine.builders import queue
from tests.admission.engine.builders import workload as made_workload

ANY = Flavor("any")
RECLAIM_ANY = PreemptionPolicy("Any")
BOTH = PreemptionPolicy("Any", "LowerPriority")
BORROWING = PreemptionPolicy("Any", "LowerPriority", borrow_policy="LowerPriority")
START = 10_000.0


def workload(key: str, cpus: int, *, to: str, queued: float = 0, priority: int = 0) -> Workload:
    """Pods of one CPU."""
    return made_workload(key, cpus, to=to, queued=float(queued), priority=priority)


def evicting(name: str, quota: int, policy: PreemptionPolicy) -> Event:
    return replace(queue(name, cohort="c", any=quota), preemption=policy)


def gang(key: str, pods: int, to: str, together: tuple[str, ...], queued: float) -> Workload:
    return replace(workload(key, pods, to=to, queued=queued), gang=Gang(f"g-{key}", together))


@dataclass(frozen=True)
class EvictionCase:
    """`queues`; `before` run first, one wave after the other; then `after` come, one after the other."""

    queues: Sequence[Event]
    before: Sequence[Workload]
    after: Sequence[Workload]
    fair: bool = False


def fewer(original: Workload, least: int) -> Workload:
    return replace(original, pod_sets=(replace(original.pod_sets[0], min_count=least),))


AB = ("ga", "gb")
SCENES = {
    "partial admission": EvictionCase(
        [evicting("a", 2, RECLAIM_ANY), evicting("b", 4, BOTH)],
        [workload("b3", 3, to="b", queued=1), workload("b2", 2, to="b", queued=2)],
        [fewer(workload("a4", 4, to="a", queued=3), 2)],
    ),
    "groups of gangs": EvictionCase(
        [evicting("a", 3, BOTH), evicting("b", 3, BOTH)],
        [],
        [
            gang("ga", 3, "a", AB, 1),
            gang("gb", 3, "a", AB, 1),
            workload("b3", 3, to="b", queued=2),
        ],
    ),
    "fair sharing, own queue against cohort": EvictionCase(
        [evicting("a", 2, PreemptionPolicy("Any")), evicting("b", 2, BOTH)],
        [],
        [
            workload("a3", 3, to="a", queued=1),
            workload("b2", 2, to="b", queued=2),
            workload("b4", 4, to="b", queued=3, priority=1),
        ],
        fair=True,
    ),
    "fair sharing, share after the eviction": EvictionCase(
        [evicting("a", 4, RECLAIM_ANY), evicting("b", 0, BOTH), evicting("d", 2, BOTH)],
        [workload("b1", 1, to="b", queued=1), workload("b3", 3, to="b", queued=2)],
        [workload("a6", 6, to="a", queued=3)],
        fair=True,
    ),
    "classic order, equal times": EvictionCase(
        [evicting("a", 2, BORROWING), evicting("b", 1, BOTH)],
        [workload("b1", 1, to="b"), workload("b2", 2, to="b")],
        [workload("a3", 3, to="a", priority=1)],
    ),
}


def fresh(scene: EvictionCase) -> World:
    made = World(now=START)
    made.sharing = FairSharingRules() if scene.fair else None
    for event in (ANY, *scene.queues):
        made.apply(event)
    return made


def live(world: World, steps: int, seconds: float = 1.0) -> Counter[tuple[str, str]]:
    """Cycles, one each so many seconds; victims leave at once and wait again. How often who was evicted for whom."""
    evicted: Counter[tuple[str, str]] = Counter()
    for _ in range(steps):
        for decision in world.cycle().decisions:
            for victim in decision.victims if isinstance(decision, Preempt) else ():
                gone = world.ledger.workload(victim.workload)
                if gone is not None and gone.admission is not None:
                    evicted[decision.workload, victim.workload] += 1
                    world.apply(ObjectRemoved(RemovedKind.WORKLOAD, gone.key))
                    world.apply(replace(gone, admission=None, admitted=None, reserved=None))
        world.now += seconds
    return evicted


@pytest.mark.parametrize("name", SCENES)
def test_the_evictions_of_a_scene_are_bounded(name: str) -> None:
    scene = SCENES[name]
    world = fresh(scene)
    evicted: Counter[tuple[str, str]] = Counter()
    for wave in (scene.before, *([one] for one in scene.after)):
        for one in wave:
            world.apply(one)
        evicted += live(world, 3)
    evicted += live(world, 200)
    assert evicted
    assert all(times == 1 for times in evicted.values()), evicted
    assert not live(world, 100), "it has settled"


def loop() -> World:
    """`high` evicts `low` whenever it runs, and never starts: what its victim leaves is taken by others."""
    scene = SCENES["fair sharing, own queue against cohort"]
    world = fresh(scene)
    for one in scene.after:
        world.apply(one)
        live(world, 3)
    return world


def test_the_third_time_it_waits_with_a_reason_and_may_evict_again_later() -> None:
    world = loop()
    live(world, 30)
    waits = [d for d in world.cycle().decisions if isinstance(d, Wait) and d.reason is Reason.REPEATED_PREEMPTION]
    assert waits == []  # told once, it sleeps
    sleeping = {
        key: again for key, (why, again) in world.queues.refusals().items() if why is Reason.REPEATED_PREEMPTION
    }
    assert sleeping
    until = min(again for again in sleeping.values() if again is not None)
    assert START + WITHIN <= until <= START + WITHIN + 60
    assert not live(world, 20)
    world.now = until
    assert live(world, 1), "ten minutes after its first eviction it is looked at again"


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        pytest.param(
            [("a4", "b2")] * TIMES,
            "had b2 evicted 2 times within 10 minutes; may evict it at 1970-01-01T02:56:40Z",
            id="again and again",
        ),
        pytest.param([("b2", "a4")], "was evicted for b2; may evict it at 1970-01-01T02:56:40Z", id="in return"),
    ],
)
def test_it_names_the_victim_and_the_moment(pairs: list[tuple[str, str]], message: str) -> None:
    scene = SCENES["partial admission"]
    world = fresh(scene)
    for preemptor, victim in pairs:
        world.queues.evictions.evict(preemptor, [victim], START)
        world.queues.evictions.pending(victim)
    for one in scene.before:
        world.apply(one)
    world.cycle()
    for one in scene.after:
        world.apply(one)
    [told] = [d for d in world.cycle().decisions if isinstance(d, Wait)]
    assert (told.workload, told.reason, told.message) == ("a4", Reason.REPEATED_PREEMPTION, message)


def test_it_counts_through_others_and_as_long_as_each_step_does() -> None:
    found = Evictions()
    found.evict("b2", ["a3"], 1.0)
    found.evict("b4", ["b2"], 5.0)
    assert found.evicted_for({"a3"}, {"b4": "b4"}, 6.0) == ("b4", 1.0 + WITHIN)
    assert found.evicted_for({"a3"}, {"b4": "b4"}, 1.0 + WITHIN) is None
    assert found.evicted_for({"b4"}, {"b2": "b2", "a3": "a3"}, 6.0) is None


def test_a_changed_priority_makes_it_another_one() -> None:
    found = Evictions()
    found.evict("p", ["v", "w"], 1.0)
    found.evict("v", ["x"], 1.0)
    found.forget("v")
    assert [(pair.preemptor, pair.victim) for pair in found.pairs()] == [("p", "w")]
    assert found.evicted_for({"w"}, {"p": "p"}, 2.0) == ("p", 1.0 + WITHIN)
    assert found.evicted_for({"v"}, {"p": "p"}, 2.0) is None


def test_a_snapshot_in_the_middle_goes_on_alike() -> None:
    world = loop()
    data = capture_world(world).encode()
    copy = from_snapshot(decode(data))
    assert capture_world(copy).encode() == data
    assert live(copy, 20) == live(world, 20)
    assert capture_world(copy).encode() == capture_world(world).encode()


def test_one_eviction_counts_once_however_often_it_is_decided() -> None:
    found = Evictions()
    for second in range(5):
        found.evict("p", ["v"], float(second))
        assert found.too_often("p", ["v"], float(second)) is None
    found.pending("v")
    found.evict("p", ["v"], 7.0)
    found.pending("v")
    assert found.too_often("p", ["u", "v"], 8.0) == ("v", WITHIN)
    assert found.too_often("other", ["v"], 8.0) is None
    assert found.too_often("p", ["v"], WITHIN) is None


def test_each_further_eviction_makes_the_pause_longer_until_all_is_forgotten() -> None:
    """Else evictions would come back for ever, each time that the pause is over."""
    found, now = Evictions(), 0.0
    for pause in (WITHIN, WITHIN, GROWTH * WITHIN, GROWTH**2 * WITHIN):
        found.evict("p", ["v"], now)
        found.pending("v")
        assert found.evicted_for({"v"}, {"p": "p"}, now) == ("p", now + pause)
        assert found.evicted_for({"v"}, {"p": "p"}, now + pause) is None
        now += pause
    before = now - GROWTH**2 * WITHIN
    assert found.too_often("p", ["v"], before) == ("v", now - GROWTH * WITHIN), "from the eviction before the last"
    found.evict("p", ["v"], before + A_DAY)
    assert found.pairs() == (EvictedPair("p", "v", (before + A_DAY,), leaving=True),)


def test_a_pair_that_pauses_for_long_is_remembered_for_longer_than_a_day() -> None:
    pair = EvictedPair("p", "v", (0.0,), leaving=False, times=TIMES + 4)
    assert pair.forgotten == REMEMBERED * GROWTH**4 * WITHIN > A_DAY


def test_the_memory_is_bounded_and_forgets() -> None:
    found = Evictions()
    for n in range(MOST + 5):
        found.evict("p", [f"v{n}"], 1.0)
    assert len(found.pairs()) == MOST
    assert found.pairs()[0] == EvictedPair("p", "v5", (1.0,), leaving=True)
    found.evict("p", ["new"], 1.0 + A_DAY)
    assert [pair.victim for pair in found.pairs()] == ["new"]
    found.pending("v9")  # of whom nothing is known any more
