"""No workload waits for a change that has come: each kind of change wakes those that it lets start."""

from __future__ import annotations

from dataclasses import replace

import pytest

from admission.engine.decision import Admit, Preempt
from admission.engine.model import (
    ClusterQueue,
    Event,
    Flavor,
    Gang,
    ObjectRemoved,
    PreemptionPolicy,
    QueueingStrategy,
    RemovedKind,
    SpareRule,
    StopPolicy,
    TopologyRequest,
    Workload,
)
from admission.engine.queue.pending import CapacityReservation
from admission.world.world import World
from tests.admission.engine.builders import BEST, HOST, RACK, STRICT, host, queue, racks, workload
from tests.admission.engine.queue.used import RULES

LOWER, NEWER = PreemptionPolicy("Never", "LowerPriority"), PreemptionPolicy("Never", "LowerOrNewerEqualPriority")
BOTH = pytest.mark.parametrize("strategy", [BEST, STRICT])


class Scene:
    """A cluster as the controller sees it: a cycle runs where an event asks for one, and as long as one asks for the next."""

    def __init__(self, *events: Event) -> None:
        self.world, self.due = World(), False
        self.started: list[str] = []
        self.evicted: list[str] = []
        self.tell(*events)

    def tell(self, *events: Event) -> None:
        for event in events:
            self.due |= self.world.state.apply(event)
        self.rest()

    def rest(self) -> None:
        for _ in range(20):
            if not self.due:
                return
            report = self.world.cycle()
            self.due = report.more
            for decision in report.decisions:
                if isinstance(decision, Admit):
                    self.started.append(decision.workload)
                elif isinstance(decision, Preempt):
                    self.evicted += [victim.workload for victim in decision.victims]
        raise AssertionError("the cycles do not end")

    def leave(self, key: str) -> None:
        """An evicted workload has stopped, and waits again."""
        gone = self.world.ledger.workload(key)
        assert gone is not None
        self.tell(replace(gone, admission=None, admitted=None, reserved=None))

    def finish(self, key: str) -> None:
        self.tell(ObjectRemoved(RemovedKind.WORKLOAD, key))

    def waits(self) -> set[str]:
        return {one.key for one in self.world.queues.workloads()}


def member(key: str, queued: float, to: str = "q", **more: object) -> Workload:
    made = replace(workload(key, queued=queued, to=to), gang=Gang(f"uid-{key}", ("a", "b")))
    return replace(made, **more)  # type: ignore[arg-type]


def strict(**more: object) -> ClusterQueue:
    return replace(queue(strategy=STRICT, one=4), **more)  # type: ignore[arg-type]


@BOTH
def test_a_group_starts_when_its_last_gang_comes(strategy: QueueingStrategy) -> None:
    scene = Scene(Flavor("one"), queue(strategy=strategy, one=4), member("a", 1.0), workload("behind", queued=2.0))
    scene.tell(member("b", 3.0))
    assert sorted(scene.started) == ["a", "b", "behind"]


@BOTH
def test_a_group_starts_when_the_backoff_of_one_of_its_gangs_is_over(strategy: QueueingStrategy) -> None:
    """Also where another workload comes before that gang in its queue."""
    full = queue("full", strategy=STRICT, one=4)
    scene = Scene(Flavor("one"), queue(strategy=strategy, one=4), full, workload("large", 5, to="full", queued=0.0))
    scene.tell(member("a", 1.0), member("b", 2.0, "full", not_before=60.0))
    scene.world.now = 60.0
    scene.due = True
    scene.rest()
    assert sorted(scene.started) == ["a", "b"]


def test_a_queue_ordered_by_usage_goes_on_after_a_preemption() -> None:
    """The LocalQueue of the victim has used less, but the preemptor comes first: it would evict the victim again."""
    scene = Scene()
    scene.world.queues.past.rules = RULES
    scene.world.queues.past.restore("ns/much", {"cpu": 9_000_000.0}, 0.0)
    scene.tell(Flavor("one"), strict(preemption=LOWER, by_usage=True))
    scene.tell(replace(workload("victim", 4), queue="ns/little"))
    scene.tell(replace(workload("urgent", 4, priority=9, queued=1.0), queue="ns/much"))
    assert scene.evicted == ["victim"]
    scene.leave("victim")
    assert scene.started == ["victim", "urgent"]
    scene.finish("urgent")
    assert scene.started[2:] == ["victim"]


def test_a_strict_queue_goes_on_if_a_more_important_workload_comes_while_a_victim_leaves() -> None:
    """It borrows, so the reservation of the preemptor behind it comes first in the order of the cycle."""
    lends = queue("lends", cohort="c", one=2)
    scene = Scene(Flavor("one"), strict(preemption=LOWER, cohort="c"), lends, workload("victim", 4))
    scene.tell(workload("preemptor", 4, priority=1, queued=1.0))
    assert scene.evicted == ["victim"]
    scene.tell(workload("important", 6, priority=2, queued=2.0))
    scene.leave("victim")
    assert scene.started == ["victim", "important"]


def test_an_older_workload_learns_that_a_younger_slice_has_the_place_of_the_one_before() -> None:
    scene = Scene(Flavor("one"), queue(one=6), workload("first", 5))
    scene.tell(replace(queue(one=6), preemption=NEWER), workload("older", 6, queued=1.0))
    scene.tell(replace(workload("next", 6, queued=2.0), replaces="first"))
    assert scene.evicted == ["next"]


@pytest.mark.parametrize("backfill", [False, True])
def test_nobody_waits_behind_a_slice_that_cannot_grow(backfill: bool) -> None:
    both = replace(queue(strategy=STRICT, one=5, two=5), preemption=LOWER, reserves_starts=backfill)
    scene = Scene(Flavor("one"), Flavor("two"), both, workload("job", 5, priority=1), workload("low", 5))
    grown = replace(workload("slice", 6, queued=1.0, priority=1), replaces="job")
    scene.tell(grown, workload("high", 2, queued=2.0, priority=1))
    assert scene.evicted == ["low"]
    scene.leave("low")
    assert scene.started == ["job", "low", "high"]


def test_a_cordon_that_gives_back_a_spare_host_lets_a_workload_start() -> None:
    spare = replace(racks(), spare=SpareRule(1, 4, RACK))
    hosts = [host(f"h{number}", "r", 4) for number in range(4)]
    pod = TopologyRequest(required=HOST)
    scene = Scene(spare, queue(tas=100), *hosts, *(workload(f"w{n}", 1, 4, topology=pod) for n in range(4)))
    assert len(scene.started) == 3
    used = {got.values[-1] for a in scene.world.ledger.admissions.values() for p in a.pod_sets if p.count == 1
            and p.assignment is not None and p.name == "main" for got in p.assignment.domains}  # fmt: skip
    scene.tell(replace(hosts[int(min(used)[1:])], usable=False))
    assert len(scene.started) == 4


def test_the_workload_behind_a_head_that_another_replica_admits_is_evaluated() -> None:
    scene = Scene(Flavor("one"), strict(), workload("runs", 2), workload("head", 3, queued=1.0))
    scene.tell(workload("behind", 1, queued=2.0))
    other = Scene(Flavor("one"), queue(one=4), workload("head", 1))
    scene.tell(replace(workload("head", 1, queued=1.0), admission=other.world.ledger.admission("head")))
    assert scene.started == ["runs", "behind"]


def test_a_group_starts_when_capacity_is_freed_where_one_of_its_gangs_stands_behind_another_workload() -> None:
    full = queue("full", strategy=STRICT, one=2)
    scene = Scene(Flavor("one"), queue(one=4), full, workload("runs", 2, to="full"))
    scene.tell(workload("large", 9, to="full", queued=1.0), member("a", 2.0), member("b", 3.0, "full"))
    scene.finish("runs")
    assert sorted(scene.started) == ["a", "b", "runs"]


def test_a_workload_that_would_delay_a_head_is_evaluated_when_the_start_of_that_head_moves() -> None:
    """The limit of the one before it grows, so that the head is to start later and in another flavor."""
    scene = Scene(Flavor("one"), Flavor("two"), replace(queue(one=5, two=5), reserves_starts=True))
    scene.tell(replace(workload("first", 4), time_limit=100.0), replace(workload("second", 4), time_limit=200.0))
    scene.tell(workload("head", 5, queued=1.0), workload("behind", 1, queued=2.0))
    assert scene.started == ["first", "second"]
    first = scene.world.ledger.workload("first")
    assert first is not None
    scene.tell(replace(first, time_limit=900.0))
    scene.world.now = 100.0
    scene.due = True
    scene.rest()
    assert scene.started == ["first", "second", "behind"]


def test_a_workload_that_chooses_other_victims_no_longer_waits_for_those_before() -> None:
    """The one chosen first left after the workload was deleted, and the queues looked for its reservation."""
    scene = Scene(Flavor("one"), strict(preemption=LOWER), workload("waits", 4))
    queues, held = scene.world.queues, scene.world.ledger.admissions["waits"]
    scene.finish("waits")
    scene.world.apply(strict(stop=StopPolicy.HOLD))
    scene.world.apply(workload("waits", 4))
    for victim in ("first", "second"):
        queues.reserve_capacity("waits", CapacityReservation(held, frozenset({victim})))
    queues.remove("waits")
    for victim in ("first", "second"):
        queues.lines.quota_freed({"q"}, lambda reservations: lambda queue, pair, priority: 0, victim)
    assert not queues.lines._reservations
