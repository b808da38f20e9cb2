"""Three workloads that evict one another in turn do so less and less often, in every mode in which they can.

`large` evicts `small` in their own queue, by priority or age; `small` leaves its queue a smaller share than `middle` has, and
`middle` a smaller one than `large`: under fair sharing each may evict the next. Where victims took half an hour to leave, each
pair was forgotten before its turn came again, and the circle never ended.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from admission.engine.model import Cohort, Event, Flavor, PreemptionPolicy, Quota
from admission.engine.queue.evictions import TIMES
from tests.admission.engine.builders import BEST, CPU, STRICT, host, queue, racks, workload
from tests.admission.engine.cycle.test_evictions_random import EvictionHistory, RandomEvictionCase, begun
from tests.budgets import quick

CIRCLE = (("large", "small"), ("small", "middle"), ("middle", "large"))
DAY = 24 * 3600.0
SEEDS = range(quick(24))


def scene(seed: int) -> RandomEvictionCase:
    """Two queues without quota of their own, on quota alone or on nodes, and three workloads that come in any order."""
    dice = random.Random(seed)
    total = dice.randint(5, 8)  # no two of them fit together
    small = dice.randint(2, total - 3)
    middle = dice.randint(max(small, total - small) + 1, total - 1)
    large = dice.randint(middle + 1, total)
    by_age = dice.random() < 0.4
    policy = PreemptionPolicy("Any", "LowerOrNewerEqualPriority" if by_age else "LowerPriority")
    queues = [
        replace(queue(name, strategy=dice.choice((BEST, BEST, STRICT)), cohort="c", one=0), preemption=policy)
        for name in "ab"
    ]
    events: list[Event] = [Flavor("one")]
    if dice.random() < 0.3:
        events = [racks("one"), *(host(f"n{n}", f"r{n // 2}", 2, "one") for n in range((total + 1) // 2))]
    events.append(Cohort("c", None, {("one", "cpu"): Quota(total * CPU)}))
    jobs = [
        workload("large", large, to="a", queued=1.0, priority=0 if by_age else 1),
        workload("middle", middle, to="b", queued=2.0),
        workload("small", small, to="a", queued=3.0),
    ]
    dice.shuffle(jobs)
    return RandomEvictionCase(queues, events, [[one] for one in jobs], fair=True, delay=dice.choice((0, 0, 2)))


def week(seed: int) -> tuple[EvictionHistory, list[float]]:
    """Returns the history of a week with a cycle every ten minutes, and when somebody was evicted."""
    history = begun(scene(seed))
    began, at = history.world.now, list[float]()
    while history.world.now < began + 7 * DAY:
        before = history.evicted.total()
        history.cycles(1)
        at += [history.world.now - began] * (history.evicted.total() - before)
        history.world.now += 600
    return history, at


@pytest.mark.parametrize("part", range(4))
def test_circles_of_three_end(part: int) -> None:
    for seed in SEEDS[part::4]:
        history, at = week(seed)
        assert max(history.evicted.values(), default=0) <= TIMES + 5, seed
        assert sum(moment > 2 * DAY for moment in at) <= 9, "at most three of each workload in five days"
        assert [moment for moment in at if moment > 5 * DAY] == [], seed
        assert history.broken == [], "each preemptor starts when its victims have left"


def test_all_three_are_evicted_in_turn_in_many_scenes() -> None:
    """Else the other test would show nothing. By priority and by age, at once and where victims take half an hour to leave."""
    modes = set()
    for seed in range(12):
        case, (history, _) = scene(seed), week(seed)
        if all(history.evicted[pair] > TIMES for pair in CIRCLE):
            modes.add((case.queues[0].preemption.within_cluster_queue, case.delay))
    assert modes == {(policy, delay) for policy in ("LowerPriority", "LowerOrNewerEqualPriority") for delay in (0, 2)}
