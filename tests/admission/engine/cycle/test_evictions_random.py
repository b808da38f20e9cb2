"""In random scenes without arrivals evictions end, and each preemptor starts when its victims have left."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

import pytest

from admission.engine.decision import Admit, Preempt, Wait
from admission.engine.model import (
    ClusterQueue,
    Event,
    Flavor,
    Gang,
    ObjectRemoved,
    PreemptionPolicy,
    QueueingStrategy,
    Quota,
    RemovedKind,
    Workload,
)
from admission.engine.queue.cluster_queue import order_of
from admission.engine.queue.evictions import TIMES
from admission.engine.quota.fairness import FairSharingRules
from admission.engine.reasons import Reason
from admission.world.world import World
from tests.admission.engine.builders import host, queue, racks
from tests.admission.engine.builders import workload as made_workload
from tests.budgets import quick

START = 10_000.0
RECLAIM = ("Never", "LowerPriority", "Any")
WITHIN = ("Never", "LowerPriority", "LowerOrNewerEqualPriority")
SHORT, LONG = range(quick(80)), range(10_000)
STEPS = 80
"""So many cycles after the last arrival; evictions have to end long before."""


@dataclass
class RandomEvictionCase:
    """What comes, in waves; `delay`: at most so many cycles until a victim has left; `nodes`: whether nodes count."""

    queues: list[ClusterQueue]
    flavors: list[Event]
    waves: list[list[Workload]]
    fair: bool
    delay: int


def scene(seed: int) -> RandomEvictionCase:
    """Two to four queues of one cohort, with quotas of 0 to 4 of one or two flavors, and up to ten workloads."""
    dice = random.Random(seed)
    flavors = ["one", "two"][: dice.choice((1, 1, 2))]
    placed = dice.random() < 0.3
    fair = dice.random() < 0.5
    names = "abcd"[: dice.randint(2, 4)]
    queues = []
    for name in names:
        within = dice.choice(WITHIN)
        reclaim = dice.choice(RECLAIM)
        borrow = dice.choice(("Never", "Never", "LowerPriority")) if reclaim != "Never" and not fair else "Never"
        policy = PreemptionPolicy(reclaim, within, borrow_policy=borrow)
        quotas = {flavor: _quota(dice) for flavor in flavors}
        strategy = dice.choice((QueueingStrategy.BEST_EFFORT_FIFO, QueueingStrategy.STRICT_FIFO))
        spec = queue(name, strategy=strategy, cohort="c", **quotas)
        queues.append(replace(spec, preemption=policy, weight_milli=dice.choice((0, 500, 1000, 1000, 2000))))
    everything: list[Event] = [racks(flavor) if placed else Flavor(flavor) for flavor in flavors]
    if placed:
        everything += [host(f"{flavor}{n}", f"{flavor}-r{n // 2}", 2, flavor) for flavor in flavors for n in range(4)]
    waves: list[list[Workload]] = []
    moment = 0.0
    for number in range(dice.randint(3, 9)):
        if dice.random() < 0.7:
            moment += 1
        made = made_workload(
            f"w{number}", dice.randint(1, 5), to=dice.choice(names), queued=moment, priority=dice.choice((0, 0, 1, 2))
        )
        if dice.random() < 0.2 and made.pod_sets[0].count > 1:
            least = dice.randint(1, made.pod_sets[0].count - 1)
            made = replace(made, pod_sets=(replace(made.pod_sets[0], min_count=least),))
        group = [made]
        if dice.random() < 0.15:
            together = (f"w{number}", f"w{number}x")
            other = made_workload(together[1], dice.randint(1, 3), to=dice.choice(names), queued=moment)
            plain = replace(made, pod_sets=(replace(made.pod_sets[0], min_count=None),))
            group = [replace(one, gang=Gang(f"g-{one.key}", together)) for one in (plain, other)]
        if waves and dice.random() < 0.3:
            waves[-1] += group
        else:
            waves.append(group)
    return RandomEvictionCase(queues, everything, waves, fair, dice.choice((0, 0, 2)))


def arriving(case: RandomEvictionCase) -> RandomEvictionCase:
    """The scene with workloads queued at the moment at which they come, and not long before."""
    waves = [[replace(one, queued=START + moment) for one in wave] for moment, wave in enumerate(case.waves)]
    return replace(case, waves=waves)


def _quota(dice: random.Random) -> int | Quota:
    amount = dice.randint(0, 4)
    if dice.random() < 0.8:
        return amount
    return Quota(amount * 1000, borrowing_limit=dice.choice((None, 1000)), lending_limit=dice.choice((None, 1000)))


@dataclass
class EvictionHistory:
    """A scene as it goes on. `owed`: by preemptor, those that are still to leave for it, and since when they have."""

    world: World
    delay: int
    evicted: Counter[tuple[str, str]] = field(default_factory=Counter)
    leaving: dict[str, int] = field(default_factory=dict)
    owed: dict[str, set[str]] = field(default_factory=dict)
    since: dict[str, int] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    repeated: int = 0
    last: int = 0
    step: int = 0

    def come(self, wave: list[Workload]) -> None:
        """One that is more important, or comes first in line, may go before a preemptor that waits for its victims."""
        for one in wave:
            self.world.apply(one)
            self._first(one)

    def _first(self, workload: Workload) -> None:
        for preemptor in list(self.owed):
            waiting = self.world.queues.workload(preemptor)
            if waiting is not None and order_of(workload)[:2] <= order_of(waiting)[:2]:
                del self.owed[preemptor]

    def cycles(self, number: int) -> None:
        """So many, one each second."""
        for _ in range(number):
            self.step += 1
            for decision in self.world.cycle().decisions:
                self._decided(decision)
            for key in sorted(self.leaving):
                self.leaving[key] -= 1
                if self.leaving[key] < 0:
                    del self.leaving[key]
                    self._leaves(key)
            self._look()
            self.world.now += 1

    def _decided(self, decision: object) -> None:
        match decision:
            case Preempt(workload=preemptor, victims=victims):
                self.owed.setdefault(preemptor, set())
                self.since.pop(preemptor, None)
                for victim in victims:
                    self._group_broken(victim.workload)
                    self.owed[preemptor].add(victim.workload)
                    if victim.workload not in self.leaving:
                        self.evicted[preemptor, victim.workload] += 1
                        self.leaving[victim.workload] = self.delay
                        self.last = self.step
            case Admit(workload=key):
                self.owed.pop(key, None)
                self.since.pop(key, None)
            case Wait(reason=Reason.REPEATED_PREEMPTION):
                self.repeated += 1
                self.owed.pop(decision.workload, None)

    def _group_broken(self, victim: str) -> None:
        """A gang that is to join the rest of its group needs more capacity than was made for it once the rest is evicted."""
        evicted = self.world.ledger.workload(victim)
        for key in evicted.gang.together if evicted is not None and evicted.gang is not None else ():
            self.owed.pop(key, None)

    def _leaves(self, key: str) -> None:
        gone = self.world.ledger.workload(key)
        if gone is None:
            return
        self.owed.pop(key, None)
        self.world.apply(ObjectRemoved(RemovedKind.WORKLOAD, key))
        gang = None if gone.gang is None else replace(gone.gang, started=False)
        back = replace(gone, admission=None, admitted=None, reserved=None, gang=gang)
        self.world.apply(back)
        for preemptor in [key for key in self.owed if key in self._of(back.cluster_queue)]:
            waiting = self.world.queues.workload(preemptor)
            if waiting is not None and self._strict(back) and order_of(back) < order_of(waiting):
                del self.owed[preemptor]  # nobody overtakes it in its StrictFIFO queue

    def _strict(self, workload: Workload) -> bool:
        spec = self.world.ledger.quota.spec(workload.cluster_queue)
        return spec is not None and spec.strategy is QueueingStrategy.STRICT_FIFO

    def _of(self, queue: str) -> set[str]:
        return {one.key for one in self.world.queues.workloads() if one.cluster_queue == queue}

    def _look(self) -> None:
        """A preemptor has to be admitted within two cycles after the last of its victims has left."""
        for preemptor, victims in list(self.owed.items()):
            if victims & (self.leaving.keys()):
                self.since.pop(preemptor, None)
                continue
            if self.step - self.since.setdefault(preemptor, self.step) > 2:
                self.broken.append(preemptor)
                del self.owed[preemptor], self.since[preemptor]


def live(case: RandomEvictionCase) -> EvictionHistory:
    life = begun(case)
    life.cycles(STEPS)
    return life


H = TypeVar("H", bound=EvictionHistory)


def begun(case: RandomEvictionCase) -> EvictionHistory:
    """All have come."""
    return begun_as(EvictionHistory, case)


def begun_as(kind: type[H], case: RandomEvictionCase) -> H:
    """All have come, in a history of this kind."""
    world = World(now=START)
    world.sharing = FairSharingRules() if case.fair else None
    for event in (*case.flavors, *case.queues):
        world.apply(event)
    life = kind(world, case.delay)
    for wave in case.waves:
        life.come(wave)
        life.cycles(1)
    return life


def broken(seeds: range, timed: Callable[[RandomEvictionCase], RandomEvictionCase]) -> list[str]:
    """What went on for too long, and which preemptors did not start when their victims had left."""
    found = []
    for seed in seeds:
        life = live(timed(scene(seed)))
        if (most := max(life.evicted.values(), default=0)) > TIMES:
            found.append(f"seed {seed}: one workload evicted another {most} times")
        if life.step - life.last < STEPS // 2:
            found.append(f"seed {seed}: evictions go on")
        found += [f"seed {seed}: {key} was not admitted when its victims had left" for key in life.broken]
    return found


def as_made(case: RandomEvictionCase) -> RandomEvictionCase:
    """All workloads were queued before the first cycle."""
    return case


@pytest.mark.parametrize("timed", [as_made, arriving])
def test_evictions_end_and_each_preemptor_starts(timed: Callable[[RandomEvictionCase], RandomEvictionCase]) -> None:
    assert broken(SHORT, timed) == []


@pytest.mark.long
@pytest.mark.parametrize("timed", [as_made, arriving])
def test_evictions_end_and_each_preemptor_starts_in_very_many_scenes(
    timed: Callable[[RandomEvictionCase], RandomEvictionCase],
) -> None:
    """Each of the scenes that once failed is among them, and so is each mode."""
    assert broken(LONG, timed) == []


@pytest.mark.parametrize("seed", [1911, 2570, 2710, 3627, 6578, 6612, 7627])
def test_a_preemptor_starts_where_its_capacity_was_once_taken(seed: int) -> None:
    """Its room was taken: of a renewed promise, in its own queue, beside victims still on their way, or as a group of gangs."""
    assert broken(range(seed, seed + 1), as_made) == []


@pytest.mark.parametrize("seed", [815, 2591, 3252, 4708, 5193, 9292])
def test_a_preemptor_starts_where_a_later_workload_took_its_capacity(seed: int) -> None:
    """It was queued in the same second, or another preemptor (815) started in the room that both were counting on."""
    assert broken(range(seed, seed + 1), arriving) == []


@pytest.mark.parametrize("timed", [as_made, arriving])
def test_a_claim_covers_what_the_victims_of_other_claims_leave(
    timed: Callable[[RandomEvictionCase], RandomEvictionCase],
) -> None:
    """w3 takes two of the five that its victim leaves, w4 needs the rest: w5 has an earlier turn and gets none."""
    assert broken(range(24233, 24234), timed) == []


@pytest.mark.parametrize("timed", [as_made, arriving])
@pytest.mark.parametrize("seed", [15673, 19572])
def test_a_preemptor_that_waits_for_the_victims_of_others_keeps_its_claim(
    seed: int, timed: Callable[[RandomEvictionCase], RandomEvictionCase]
) -> None:
    assert broken(range(seed, seed + 1), timed) == []


def test_a_gang_does_not_evict_others_to_join_one_that_is_being_evicted() -> None:
    assert broken(range(27922, 27923), arriving) == []


def test_a_claim_behind_the_head_of_a_strict_queue_ends() -> None:
    """w5 has its victims evicted, and then w4 comes back before it: what w5 was to get is not kept idle."""
    assert not live(scene(18496)).world.queues.preemptors


@pytest.mark.parametrize("seed", [5, 677, 1237, 1617, 2049])
def test_a_circle_of_evictions_ends(seed: int) -> None:
    """Two evict each other whenever they may, less and less often. A week, with a cycle every ten minutes."""
    life = begun(replace(scene(seed), delay=0))
    at: list[float] = []
    for _ in range(7 * 24 * 6):
        before = life.evicted.total()
        life.cycles(1)
        at += [life.world.now] * (life.evicted.total() - before)
        life.world.now += 600
    assert max(life.evicted.values()) in range(TIMES + 1, 8)
    day = 24 * 3600
    assert sum(START + 2 * day < moment for moment in at) <= 6, "at most two of each workload in five days"
    assert [moment for moment in at if START + 5 * day < moment] == []
