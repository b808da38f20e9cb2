"""A head starts when it was told to, although those that overtook it by their guess have time to end: on virtual time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from math import ceil, inf
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine.decision import Admit, Preempt, Wait
from admission.engine.model import Event, Flavor, QueueingStrategy, TopologyRequest, Workload
from admission.engine.queue.cluster_queue import order_of
from tests.admission.engine.builders import BEST, RACK, STRICT, Cluster, host, racks, workload
from tests.admission.engine.features.backfill.test_backfill import timed
from tests.admission.engine.features.backfill.test_backfill_by_guess import BIG, by_guess, guessed
from tests.budgets import quick


class Clock:
    """A cluster whose pods take all the time that they have to end. What is refused looks again when the queues say."""

    def __init__(self, *events: Event, jobs: Sequence[Workload], works: Mapping[str, float] | None = None) -> None:
        """Jobs arrive when they are queued. Each works for so many seconds, by key; else to its limit, without one for ever."""
        self.cluster, self.now, self._works = Cluster(*events), 0.0, works or {}
        self.started: dict[str, float] = {}
        self.promised: dict[str, float] = {}
        self.evicted: dict[str, float] = {}
        self._events: list[tuple[float, str, Workload | None]] = []
        for job in jobs:
            self.arrive(job)

    def arrive(self, job: Workload) -> None:
        """A job arrives when it is queued."""
        heappush(self._events, (job.queued, job.key, job))

    def run(self, until: float = 1000.0) -> None:
        """Handles what happens up to this time, each moment with the cycles that it causes."""
        while True:
            due = [self._events[0][0]] if self._events else []
            if (at := self.cluster.queues.next_due()) is not None:
                due.append(max(at, self.now))
            if not due or min(due) > until:
                return
            self.now = min(due)
            while self._events and self._events[0][0] == self.now:
                _, key, arrives = heappop(self._events)
                if arrives is not None:
                    self.cluster.tell(arrives)
                elif key in self.cluster.ledger.admissions:
                    self._leaves(key)
            while self._cycle():
                pass

    def _leaves(self, key: str) -> None:
        running = self.cluster.ledger.workload(key)
        assert running is not None
        self.cluster.finish(key)
        if running.evicted:
            ran = replace(running, admission=None, admitted=None, yields=None, reserved=None, evicted=False)
            self.cluster.tell(replace(ran, guess=None, queued=self.now))

    def _cycle(self) -> bool:
        report = self.cluster.cycle(now=self.now)
        for decision in report.decisions:
            match decision:
                case Admit():
                    self.started.setdefault(decision.workload, self.now)
                    self._begin(decision.workload)
                case Preempt():
                    for victim in decision.victims:
                        self._evict(victim.workload)
                case Wait():
                    self._note_promise(decision.workload)
        assert self.cluster.ledger.audit() == []
        return report.more or bool(report.decisions)

    def _note_promise(self, key: str) -> None:
        """Only the foremost of all is promised something: another one may come before the others."""
        queues = self.cluster.queues
        start = queues.starts.start_of(head) if (head := queues.workload(key)) is not None else None
        if head is not None and start is not None and order_of(head) == min(map(order_of, queues.workloads())):
            self.promised.setdefault(key, start)

    def _begin(self, key: str) -> None:
        running = self.cluster.ledger.workload(key)
        assert running is not None
        if running.yields is not None:  # the status has whole seconds
            self.cluster.tell(replace(running, yields=float(ceil(running.yields))))
        limit = inf if running.time_limit is None else running.time_limit + running.termination
        if (runs := min(limit, self._works.get(key, inf))) < inf:
            heappush(self._events, (self.now + runs, key, None))

    def _evict(self, key: str) -> None:
        running = self.cluster.ledger.workload(key)
        assert running is not None
        if not running.evicted:
            self.evicted[key] = self.now
            self.cluster.tell(replace(running, evicted=True))
            heappush(self._events, (self.now + running.termination, key, None))


def ending(seconds: float, workload: Workload) -> Workload:
    """The workload, whose pods have so much time to end."""
    return replace(workload, termination=seconds)


FIRST = timed("a", 6, 60.0)


def flat(*jobs: Workload, strategy: QueueingStrategy = STRICT) -> Clock:
    """Ten CPUs in one queue."""
    clock = Clock(Flavor("any"), by_guess(strategy=strategy, any=10), jobs=jobs)
    clock.run()
    return clock


@pytest.mark.parametrize("strategy", [STRICT, BEST])
@pytest.mark.parametrize("seconds", [0.0, 30.0])
def test_the_head_starts_on_time_although_the_job_in_its_way_has_time_to_end(
    seconds: float, strategy: QueueingStrategy
) -> None:
    clock = flat(FIRST, BIG, ending(seconds, guessed("w", 4, 10.0, queued=11)), strategy=strategy)
    assert clock.promised["big"] == 60.0
    assert (clock.started["w"], clock.evicted, clock.started["big"]) == (11.0, {"w": 60.0 - seconds}, 60.0)


@pytest.mark.parametrize("strategy", [STRICT, BEST])
def test_the_head_starts_within_the_second_that_it_was_told(strategy: QueueingStrategy) -> None:
    """The condition of the job in its way names whole seconds, from which the job may be evicted."""
    first = replace(FIRST, queued=0.4)
    clock = flat(first, BIG, ending(30.0, guessed("w", 4, 10.0, queued=11)), strategy=strategy)
    assert clock.promised["big"] == 60.4
    assert (clock.evicted, clock.started["big"]) == ({"w": 31.0}, 61.0)


def test_each_leaves_as_late_as_its_pods_allow() -> None:
    short, long = (ending(seconds, guessed(f"w{seconds}", 2, 10.0, queued=11)) for seconds in (5.0, 30.0))
    clock = flat(FIRST, timed("big", 10, None, queued=10), short, long)
    assert clock.evicted == {"w30.0": 30.0, "w5.0": 55.0}
    assert clock.started["big"] == 60.0


def test_one_whose_guess_and_time_to_end_are_too_long_together_waits() -> None:
    clock = flat(FIRST, BIG, ending(30.0, guessed("w", 4, 20.0, queued=11)))
    assert (clock.started["big"], clock.evicted) == (60.0, {})
    assert "w" not in clock.started


def test_one_that_outlasted_its_guess_long_ago_leaves_in_time_for_another_head() -> None:
    """It overtook a head that has gone; the next head needs its place as well as one that ends later."""
    clock = Clock(
        Flavor("any"),
        by_guess(any=10),
        jobs=[FIRST, BIG, ending(30.0, guessed("w", 4, 10.0, queued=11)), timed("b", 6, 100.0, queued=70)],
    )
    clock.run(until=20.0)
    clock.cluster.queues.remove("big")
    clock.run(until=80.0)
    assert (clock.started["b"], clock.evicted) == (70.0, {})
    clock.arrive(timed("next", 8, None, queued=81))
    clock.run()
    assert clock.promised["next"] == 170.0
    assert (clock.evicted, clock.started["next"]) == ({"w": 140.0}, 170.0)


def test_a_head_that_counts_on_one_that_must_leave_at_once_starts_when_its_pods_have_ended() -> None:
    """The rest of its place is free earlier."""
    clock = Clock(
        Flavor("any"),
        by_guess(any=10),
        jobs=[FIRST, BIG, ending(30.0, guessed("w", 4, 10.0, queued=11)), timed("b", 6, 100.0, queued=70)],
    )
    clock.run(until=20.0)
    clock.cluster.queues.remove("big")
    clock.run(until=150.0)
    clock.arrive(timed("next", 8, None, queued=155))
    clock.run()
    assert clock.promised["next"] == 185.0
    assert (clock.evicted, clock.started["next"]) == ({"w": 155.0}, 185.0)


class Drawn(NamedTuple):
    """A job: a limit or a guess of 0 is none."""

    arrives: int
    pods: int
    cpus: int
    racked: bool
    limit: int
    work: int
    guess: int
    ending: int
    to: str

    def workload(self, key: str) -> Workload:
        topology = TopologyRequest(required=RACK) if self.racked else TopologyRequest(unconstrained=True)
        job = workload(key, self.pods, self.cpus, to=self.to, topology=topology, queued=float(self.arrives))
        limit, guess = float(self.limit) or None, float(self.guess) or None
        return replace(job, time_limit=limit, guess=guess, termination=float(self.ending))

    @property
    def fits(self) -> bool:
        """In an empty cluster of two racks of two hosts of four CPUs."""
        return self.pods <= (2 if self.racked else 4) * (4 // self.cpus)


FILL = st.builds(
    Drawn,
    arrives=st.just(0),
    pods=st.integers(1, 3),
    cpus=st.just(4),
    racked=st.just(False),
    limit=st.sampled_from((20, 40, 60)),
    work=st.just(100),
    guess=st.just(0),
    ending=st.sampled_from((0, 5, 15)),
    to=st.just("q"),
)
"""The job that the first head waits for."""

HEAD = st.builds(
    Drawn,
    arrives=st.just(1),
    pods=st.integers(2, 4),
    cpus=st.just(4),
    racked=st.just(False),
    limit=st.just(0),
    work=st.just(20),
    guess=st.just(0),
    ending=st.just(0),
    to=st.just("q"),
)

BEHIND = st.builds(
    Drawn,
    arrives=st.integers(2, 30),
    pods=st.integers(1, 8),
    cpus=st.integers(1, 4),
    racked=st.booleans(),
    limit=st.sampled_from((0, 0, 0, 20)),
    work=st.sampled_from((10, 100, 100)),
    guess=st.sampled_from((0, 1, 1, 1, 5)),
    ending=st.sampled_from((0, 5, 15)),
    to=st.sampled_from(("q", "other")),
).filter(lambda job: job.fits)
"""Most run longer than jobs like them have."""

JOBS = st.tuples(FILL, HEAD, st.lists(BEHIND, min_size=1, max_size=6)).map(lambda each: [*each[:2], *each[2]])


def kept(jobs: Sequence[Drawn], strategy: QueueingStrategy) -> None:
    """Two queues share the cluster. Neither borrows: the older workload comes first."""
    hosts = [host(f"{rack}{n}", rack, 4) for rack in "xy" for n in range(2)]
    queues = [by_guess(name, strategy, tas=99) for name in ("q", "other")]
    named = {f"w{n:03}": job for n, job in enumerate(jobs)}
    works = {key: float(job.work) for key, job in named.items()}
    clock = Clock(racks(), *hosts, *queues, jobs=[job.workload(key) for key, job in named.items()], works=works)
    clock.run(10_000.0)
    assert clock.started.keys() == named.keys(), "everything runs in the end"
    assert {key: clock.started[key] for key, start in clock.promised.items() if clock.started[key] > start} == {}


@pytest.mark.parametrize("strategy", [STRICT, BEST])
@settings(max_examples=quick(15), deadline=None)
@given(jobs=JOBS)
def test_no_promised_start_is_late_whatever_time_pods_have_to_end(
    strategy: QueueingStrategy, jobs: list[Drawn]
) -> None:
    kept(jobs, strategy)


@pytest.mark.long
@pytest.mark.parametrize("strategy", [STRICT, BEST])
@settings(max_examples=500, deadline=None)
@given(jobs=JOBS)
def test_no_promised_start_is_late_whatever_time_pods_have_to_end_long(
    strategy: QueueingStrategy, jobs: list[Drawn]
) -> None:
    kept(jobs, strategy)
