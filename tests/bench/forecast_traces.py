"""Generated traces on which forecasts of starts are compared with the real starts, and the world that compares.

Called by forecast.py, and by a test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp
from random import Random
from typing import Final

from admission.engine.cycle.cycle import CycleReport
from admission.engine.features.forecast.calibration import Calibrations, StartForecast
from admission.engine.features.forecast.inputs import inputs_of
from admission.engine.features.forecast.run_times import RunEstimate, RunTimes, run_kind
from admission.engine.features.forecast.starts import forecast
from admission.engine.model import Event, Flavor, TopologyRequest, Workload
from admission.world.world import Arrival, WorkloadFacts, World
from tests.admission.engine.builders import RACK, host, queue, racks, workload

KINDS: Final = {"train": (3600.0, 0.8), "tune": (900.0, 0.6), "eval": (120.0, 1.0), "notebook": (7200.0, 1.2)}
"""Median seconds and spread of the log-normal run times."""
QUOTA: Final = 24
RACKS: Final = 2
PACE: Final = 491.0
"""Seconds between two jobs for a load of 1 of quota, and of the racks."""
PACE_RACKED: Final = 603.0
LONGEST: Final = 36_000.0
SPREAD: Final = TopologyRequest(unconstrained=True)
EVERY, EVERY_RACKED = 3, 2
"""So many new waiting jobs between two forecasts."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """How jobs come: at a load, `burst` at a time, with run times whose spread is `tail` times that of `KINDS`.

    `limits`: the part of the jobs that declare a limit, which is at most four times as long as they run.
    """

    load: float = 0.95
    burst: int = 1
    tail: float = 1.0
    limits: float = 0.0
    racked: bool = False

    @property
    def pace(self) -> float:
        """Seconds between two jobs."""
        return (PACE_RACKED if self.racked else PACE) / self.load


@dataclass(frozen=True, slots=True)
class Seen:
    """When a job was first forecast, when it started, what it was told, and whether it requires a rack."""

    made: float
    start: float
    told: StartForecast
    racked: bool

    @property
    def held(self) -> bool:
        """Whether it started within its interval."""
        return self.told.earliest <= self.start <= self.told.until


class ForecastWorld(World):
    """A world that learns, forecasts and compares while it is played."""

    def __init__(self, seconds: Mapping[str, float], every: int) -> None:
        super().__init__()
        self._every = every
        self.seconds, self.times, self.calibrations = seconds, RunTimes(), Calibrations()
        self.told: dict[str, tuple[float, StartForecast]] = {}
        self.seen: list[Seen] = []
        self._running: dict[str, float] = {}
        self._known: set[str] = set()

    def cycle(self) -> CycleReport:
        """Runs a cycle, then learns and forecasts."""
        report = super().cycle()
        held = set(self.ledger.admissions)
        for key in sorted(self._running.keys() - held):
            self.times.record(run_kind("ns/q", "Job", key), self.seconds[key])
        for key in sorted(held - self._running.keys()):
            if (told := self.told.pop(key, None)) is not None:
                made, one = told
                self.seen.append(Seen(made, self.now, one, self._requires(key)))
                self.calibrations = self.calibrations.after(self.now, one)
        for key, (made, one) in self.told.items():
            if one.until < self.now and not one.missed:
                self.calibrations = self.calibrations.after_miss(one)
                self.told[key] = made, replace(one, missed=True)
        self._running = {key: self._running.get(key, self.now) for key in held}
        waiting = {one.key for one in self.queues.workloads()}
        if len(waiting - self._known) >= self._every:
            self._known |= waiting
            inputs = inputs_of(self.ledger, self.queues, self.now, self._estimate)
            running = tuple(replace(one, since=self._running[one.key]) for one in inputs.running)
            for key, one in forecast(replace(inputs, running=running), self.calibrations).items():
                self.told.setdefault(key, (self.now, one))
        return report

    def _requires(self, key: str) -> bool:
        job = self.ledger.workload(key)
        return job is not None and any(
            each.topology is not None and each.topology.required is not None for each in job.pod_sets
        )

    def _estimate(self, job: Workload) -> RunEstimate | None:
        return self.times.estimate(run_kind("ns/q", "Job", job.key), job.time_limit)


def trace(jobs: int, seed: int, traffic: Traffic, every: int | None = None) -> ForecastWorld:
    """Returns the trace: jobs of one to sixteen CPUs in two queues of one cohort, a twentieth of them of a higher priority.

    On racks of four hosts with 8 CPUs a third of the jobs are gangs of one to four hosts of one rack, and quota is never short.
    """
    draw = Random(seed)
    if traffic.racked:
        hosts = [host(f"r{rack}h{number}", f"r{rack}", 8) for rack in range(RACKS) for number in range(4)]
        events: list[Event] = [racks(), *hosts, *(queue(name, cohort="all", tas=8 * len(hosts)) for name in "ab")]
    else:
        events = [Flavor("f"), *(queue(name, cohort="all", f=QUOTA) for name in "ab")]
    made = _gang if traffic.racked else _plain
    return _trace(jobs, draw, made, events, traffic, every or (EVERY_RACKED if traffic.racked else EVERY))


def _plain(draw: Random, key: str) -> Workload:
    return workload(key, 1, draw.choice((1, 1, 2, 4, 8, 16)), to=draw.choice("ab"))


def _gang(draw: Random, key: str) -> Workload:
    to = draw.choice("ab")
    if draw.random() < 1 / 3:
        return workload(key, draw.randint(1, 4), 8, to=to, topology=TopologyRequest(required=RACK))
    return workload(key, draw.choice((1, 1, 2)), draw.choice((1, 2, 4)), to=to, topology=SPREAD)


def _trace(
    jobs: int,
    draw: Random,
    original: Callable[[Random, str], Workload],
    events: Sequence[Event],
    traffic: Traffic,
    every: int,
) -> ForecastWorld:
    seconds, arrivals, at = dict[str, float](), [], 0.0
    for number in range(jobs):
        kind = draw.choice(sorted(KINDS))
        middle, spread = KINDS[kind]
        one, priority = original(draw, f"job-{kind}-{number}-x{number % 10}b2c"), 10 if draw.random() < 0.05 else 0
        if number % traffic.burst == 0:
            at += draw.expovariate(1 / (traffic.pace * traffic.burst))
        # the same mean, whatever the tail
        middle *= exp(spread**2 * (1 - traffic.tail**2) / 2)
        runs = min(LONGEST * traffic.tail, middle * draw.lognormvariate(0, spread * traffic.tail))
        limit = runs * draw.uniform(1, 4) if draw.random() < traffic.limits else None
        seconds[one.key] = runs
        arrivals.append(Arrival(at, replace(one, queued=at, priority=priority, time_limit=limit)))
    world = ForecastWorld(seconds, every)
    for event in events:
        world.apply(event)
    world.about = {key: WorkloadFacts(key, each) for key, each in seconds.items()}
    world.arrivals = arrivals
    return world
