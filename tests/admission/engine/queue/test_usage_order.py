"""The order of workloads in a ClusterQueue, and of its victims, by the past usage of their LocalQueues."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine.decision import Admit, Preempt, Wait
from admission.engine.model import (
    ClusterQueue,
    Event,
    Flavor,
    ObjectRemoved,
    PreemptionPolicy,
    QueueingStrategy,
    RemovedKind,
)
from admission.engine.queue.past_usage import UsageRules
from admission.world.snapshot import capture_world, decode, from_snapshot
from admission.world.world import World
from tests.admission.engine.builders import BEST, STRICT, queue
from tests.admission.engine.queue.used import HOUR, RULES, admission, few, of
from tests.budgets import examples


def world(*events: Event, rules: UsageRules | None = RULES) -> World:
    made = World()
    made.queues.past.rules = rules
    for event in events:
        made.apply(event)
    return made


def shared(cpus: int = 1, strategy: QueueingStrategy = BEST, **more: object) -> ClusterQueue:
    return replace(queue("q", strategy=strategy, any=cpus), by_usage=True, **more)  # type: ignore[arg-type]


def flavor() -> Event:
    return Flavor("any")


def started(cluster: World) -> list[str]:
    return [decision.workload for decision in cluster.cycle().decisions if isinstance(decision, Admit)]


def finish(scene: World, key: str) -> None:
    scene.apply(ObjectRemoved(RemovedKind.WORKLOAD, key))


@pytest.mark.parametrize("strategy", [BEST, STRICT])
def test_a_flooded_local_queue_takes_turns_with_another(strategy: QueueingStrategy) -> None:
    made = world(flavor(), shared(1, strategy))
    for n in range(6):
        made.apply(of("ns/many", f"ns/m{n}", queued=float(n)))
    made.apply(of("ns/few", "ns/f0", queued=100.0))
    made.apply(of("ns/few", "ns/f1", queued=101.0))
    order = []
    for _ in range(8):
        (key,) = started(made)
        order.append(key)
        made.queues.past.written(made.workload(key) or of("", key), made.now)
        finish(made, key)
    # Each costs 1/2: with equal usage the older comes first.
    assert order == ["ns/m0", "ns/f0", "ns/m1", "ns/f1", "ns/m2", "ns/m3", "ns/m4", "ns/m5"]


def test_without_the_mode_the_oldest_comes_first() -> None:
    made = world(flavor(), replace(shared(1), by_usage=False))
    made.queues.past.restore("ns/many", {"cpu": 9000.0}, 0.0)
    made.apply(of("ns/few", "ns/f", queued=2.0))
    made.apply(of("ns/many", "ns/m", queued=1.0))
    assert started(made) == ["ns/m"]


def test_usage_comes_before_priority_and_priority_counts_within_a_local_queue() -> None:
    made = world(flavor(), shared(1))
    made.queues.past.restore("ns/many", {"cpu": 9000.0}, 0.0)
    made.apply(of("ns/many", "ns/urgent", priority=1000))
    made.apply(of("ns/few", "ns/low", queued=1.0))
    made.apply(of("ns/few", "ns/high", queued=2.0, priority=5))
    assert [one.key for one in made.queues.active("q")] == ["ns/high", "ns/low", "ns/urgent"]
    assert started(made) == ["ns/high"]


def test_the_burst_of_one_cycle_is_shared() -> None:
    """Each admission counts at once: the next head is that of the LocalQueue with less usage."""
    made = world(flavor(), shared(6))
    for n in range(6):
        made.apply(of("ns/a", f"ns/a{n}", queued=float(n)))
        made.apply(of("ns/b", f"ns/b{n}", queued=10.0 + n))
    assert sorted(started(made)) == ["ns/a0", "ns/a1", "ns/a2", "ns/b0", "ns/b1", "ns/b2"]


def test_weights_share_the_burst_in_proportion() -> None:
    made = world(flavor(), shared(9))
    made.queues.past.set_weight("ns/b", 2.0)
    for n in range(9):
        made.apply(of("ns/a", f"ns/a{n}", queued=float(n)))
        made.apply(of("ns/b", f"ns/b{n}", queued=10.0 + n))
    keys = started(made)
    assert sum(key.startswith("ns/b") for key in keys) == 6


def test_a_local_queue_of_weight_zero_comes_last() -> None:
    made = world(flavor(), shared(1))
    made.queues.past.restore("ns/used", {"cpu": 1e6}, 0.0)
    made.queues.past.set_weight("ns/none", 0.0)
    made.apply(of("ns/none", "ns/n", queued=1.0))
    made.apply(of("ns/used", "ns/u", queued=2.0))
    assert started(made) == ["ns/u"]


def test_a_refused_head_of_a_strict_queue_blocks_until_usage_puts_another_first() -> None:
    made = world(flavor(), shared(2, STRICT))
    made.queues.past.restore("ns/b", {"cpu": 5000.0}, 0.0)
    made.apply(of("ns/a", "ns/big", 3))
    made.apply(of("ns/b", "ns/small", 1))
    assert started(made) == []
    assert made.queues.head("q") is None, "nothing overtakes the head"
    made.queues.past.restore("ns/a", {"cpu": 9000.0}, 0.0, again=True)
    assert made.queues.reordered("q")
    assert started(made) == ["ns/small"]


def test_a_write_that_fails_returns_the_penalty_and_the_place() -> None:
    made = world(flavor(), shared(1))
    made.apply(of("ns/a", "ns/a0"))
    made.apply(of("ns/b", "ns/b0", queued=1.0))
    assert started(made) == ["ns/a0"]
    assert made.queues.past.usage("ns/a") == 0.5
    made.apply(of("ns/a", "ns/a0"))  # as the watch shows it, without admission
    assert made.queues.past.usage("ns/a") == 0.0
    assert started(made) == ["ns/a0"]


def test_the_mode_may_be_switched_while_workloads_wait() -> None:
    made = world(flavor(), replace(shared(1), by_usage=False))
    made.queues.past.restore("ns/a", {"cpu": 5000.0}, 0.0)
    made.apply(of("ns/a", "ns/a0", queued=1.0))
    made.apply(of("ns/b", "ns/b0", queued=2.0))
    made.apply(shared(1))
    assert made.queues.head("q") is made.queues.workload("ns/b0")
    made.apply(replace(shared(1), by_usage=False))
    assert made.queues.head("q") is made.queues.workload("ns/a0")


def test_a_workload_that_changes_its_local_queue_changes_its_place() -> None:
    made = world(flavor(), shared(1))
    made.queues.past.restore("ns/a", {"cpu": 5000.0}, 0.0)
    made.apply(of("ns/a", "ns/x", queued=1.0))
    made.apply(of("ns/c", "ns/y", queued=2.0))
    assert made.queues.head("q") is made.queues.workload("ns/y")
    made.apply(of("ns/b", "ns/x", queued=1.0))
    assert made.queues.head("q") is made.queues.workload("ns/x")


@few
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(1, 3)), max_size=12), st.booleans())
def test_heads_come_in_the_order_of_positions(drawn: list[tuple[int, int, int]], strict: bool) -> None:
    made = world(flavor(), shared(0, STRICT if strict else BEST))
    for n in range(4):
        made.queues.past.restore(f"ns/{n}", {"cpu": 1000.0 * (n % 3)}, 0.0)
    for n, (local, priority, cpus) in enumerate(drawn):
        made.apply(of(f"ns/{local}", f"ns/w{n:02d}", cpus, priority=priority, queued=float(n % 3)))
    expected = sorted(made.queues.workloads(), key=made.queues.position)
    assert [one.key for one in made.queues.active("q")] == [one.key for one in expected]
    for one in expected:
        assert made.queues.head("q") is one
        made.queues.remove(one.key)
    assert made.queues.head("q") is None


@settings(max_examples=examples(5), deadline=None)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 3))
def test_with_equal_demand_usage_converges_to_the_weights(first: int, second: int, size: int) -> None:
    """Both LocalQueues always have work; jobs of an hour on few cores are handed out by usage."""
    cores = 4
    made = world(flavor(), shared(cores), rules=UsageRules(half_life=24 * HOUR, interval=HOUR))
    past, held, sizes = made.queues.past, {"ns/a": 0.0, "ns/b": 0.0}, {"ns/a": 1, "ns/b": size}
    past.set_weight("ns/a", float(first))
    past.set_weight("ns/b", float(second))
    number = 0
    for hour in range(160):
        made.now = hour * HOUR
        for local in held:
            for _ in range(cores):
                number += 1
                made.apply(of(local, f"{local}-{number:05d}", sizes[local], queued=made.now))
        running = started(made)
        for key in running:
            local = key.split("-")[0]
            past.written(of(local, key), made.now)
            held[local] += sizes[local] if hour >= 60 else 0
        for local in held:
            past.sample(local, made.now + HOUR)
        for key in running:
            finish(made, key)
        for waits in list(made.queues.workloads()):
            finish(made, waits.key)
    share = held["ns/a"] / (held["ns/a"] + held["ns/b"])
    assert share == pytest.approx(first / (first + second), abs=0.08)


def test_a_snapshot_decides_alike_and_is_reproduced() -> None:
    made = world(flavor(), shared(2))
    made.queues.past.set_weight("ns/a", 0.5)
    made.queues.past.restore("ns/b", {"cpu": 1234.5}, -100.0)
    for n in range(3):
        made.apply(of("ns/a", f"ns/a{n}", queued=float(n)))
        made.apply(of("ns/b", f"ns/b{n}", queued=float(n)))
    first = made.cycle()
    assert first.admitted == 2
    taken = capture_world(made)
    again = from_snapshot(decode(taken.encode()))
    assert capture_world(again).encode() == taken.encode()
    for each in (made, again):
        each.queues.past.sample("ns/a", 50.0)
        each.queues.past.sample("ns/b", 50.0)
    assert list(made.queues.past.records()) == list(again.queues.past.records())
    for each in (made, again):
        finish(each, first.decisions[0].workload)
    assert made.cycle() == again.cycle()


# ---- preemption


def test_the_local_queue_with_most_usage_loses_its_workload_first() -> None:
    """Kueue's rule within a ClusterQueue: usage comes before priority, so even the more important one is evicted."""
    policy = PreemptionPolicy(within_cluster_queue="LowerPriority")
    for more, victim in (("ns/a", "ns/a0"), ("ns/b", "ns/b0")):
        made = world(flavor(), shared(2, preemption=policy))
        for local, key, priority in (("ns/a", "ns/a0", 5), ("ns/b", "ns/b0", 1)):
            held = replace(of(local, key, priority=priority, reserved=0.0), admission=admission(1))
            made.apply(held)
        made.queues.past.restore(more, {"cpu": 9000.0}, 0.0, again=True)
        made.apply(of("ns/c", "ns/c0", priority=10))
        (decision,) = made.cycle().decisions
        assert [one.workload for one in getattr(decision, "victims", ())] == [victim]


def test_usage_of_other_cluster_queues_is_not_compared() -> None:
    policy = PreemptionPolicy(reclaim_within_cohort="Any")
    made = world(
        flavor(),
        replace(queue("q", any=2, cohort="all"), preemption=policy),
        replace(queue("x", any=0, cohort="all"), by_usage=True),
        replace(queue("y", any=0, cohort="all"), by_usage=True),
    )
    for name, key, priority in (("x", "ns/x0", 1), ("y", "ns/y0", 2)):
        admitted = replace(admission(1), cluster_queue=name)
        made.apply(
            replace(of(f"ns/{name}", key, priority=priority, reserved=0.0), cluster_queue=name, admission=admitted)
        )
    made.queues.past.restore("ns/y", {"cpu": 9000.0}, 0.0, again=True)
    made.apply(of("ns/c", "ns/c0"))
    (decision,) = made.cycle().decisions
    assert [one.workload for one in getattr(decision, "victims", ())] == ["ns/x0"]


@pytest.mark.parametrize("within", ["LowerPriority", "LowerOrNewerEqualPriority"])
@pytest.mark.parametrize("strategy", [BEST, STRICT])
def test_nothing_starts_that_the_next_would_evict_at_once(strategy: QueueingStrategy, within: str) -> None:
    """The LocalQueue that used less has the less important workload: by usage alone it would start, and be evicted."""
    made = world(flavor(), shared(1, strategy, preemption=PreemptionPolicy(within_cluster_queue=within)))
    made.queues.past.restore("ns/many", {"cpu": 9000.0}, 0.0)
    made.apply(of("ns/few", "ns/low", queued=1.0))
    made.apply(of("ns/many", "ns/urgent", queued=2.0, priority=100))
    assert [one.key for one in made.queues.active("q")] == ["ns/urgent", "ns/low"]
    decisions = made.cycle().decisions
    assert [(type(one), one.workload) for one in decisions if not isinstance(one, Wait)] == [(Admit, "ns/urgent")]


@pytest.mark.parametrize("strategy", [BEST, STRICT])
def test_a_preemptor_starts_where_its_victim_comes_back_to_a_queue_that_used_less(strategy: QueueingStrategy) -> None:
    made = world(flavor(), shared(4, strategy, preemption=PreemptionPolicy(within_cluster_queue="LowerPriority")))
    made.queues.past.restore("ns/a", {"cpu": 9000.0}, 0.0)
    made.apply(of("ns/b", "ns/long", 4))
    assert started(made) == ["ns/long"]
    made.apply(of("ns/a", "ns/urgent", 4, queued=1.0, priority=100))
    (decision,) = made.cycle().decisions
    assert isinstance(decision, Preempt)
    finish(made, "ns/long")
    made.apply(of("ns/b", "ns/long", 4))
    assert started(made) == ["ns/urgent"]


def test_usage_orders_workloads_of_equal_priority_that_cannot_evict_each_other() -> None:
    made = world(flavor(), shared(1, preemption=PreemptionPolicy(within_cluster_queue="LowerPriority")))
    made.queues.past.restore("ns/many", {"cpu": 9000.0}, 0.0)
    made.apply(of("ns/many", "ns/m", queued=1.0, priority=1))
    made.apply(of("ns/few", "ns/f", queued=2.0, priority=1))
    assert started(made) == ["ns/f"]


def test_a_priority_that_a_tenant_wrote_for_its_gang_puts_it_before_no_other_local_queue() -> None:
    made = world(flavor(), shared(1, preemption=PreemptionPolicy(within_cluster_queue="LowerPriority")))
    made.queues.past.restore("ns/many", {"cpu": 9000.0}, 0.0)
    made.apply(of("ns/many", "ns/m", queued=1.0, priority=9, priority_elsewhere=0))
    made.apply(of("ns/few", "ns/f", queued=2.0))
    assert started(made) == ["ns/f"]


def test_a_policy_that_changes_while_workloads_wait_changes_their_order() -> None:
    made = world(flavor(), shared(1))
    made.queues.past.restore("ns/many", {"cpu": 9000.0}, 0.0)
    made.apply(of("ns/few", "ns/low", queued=1.0))
    made.apply(of("ns/many", "ns/urgent", queued=2.0, priority=100))
    assert made.queues.head("q") is made.queues.workload("ns/low")
    made.apply(shared(1, preemption=PreemptionPolicy(within_cluster_queue="LowerPriority")))
    assert made.queues.head("q") is made.queues.workload("ns/urgent")
    made.apply(shared(1))
    assert made.queues.head("q") is made.queues.workload("ns/low")
