"""Calibration and cost of forecasts of starts on generated traces.

    python -m tests.bench forecast [--jobs 3000] [--seed 1]

Jobs of four kinds come to two queues of one cohort and wait. The real engine plays the trace (`stowage simulate`). After every
tenth job that waits (on racks, every second) all are forecast from what has ended by then, and each job's first interval is
compared with its real start. The first fifth of the jobs teaches and is not counted. In the first trace quota is short; in the
second one a third of the jobs are gangs that require a rack, and quota is never short; the third one has half as many jobs of
that kind, at a load that the racks cannot take, so that gangs starve behind later and smaller jobs.

All of it takes about a minute on a quiet machine.

The cost is that of 1,000 waiting jobs by quota, and of 1,000 on 15,000 nodes (fragmented.py).
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from statistics import median
from time import process_time
from typing import Final

from admission.engine.cycle.cycle import CycleReport
from admission.engine.forecast.calibration import Calibrations, StartForecast
from admission.engine.forecast.inputs import inputs_of
from admission.engine.forecast.run_times import RunEstimate, RunTimes, run_kind
from admission.engine.forecast.starts import forecast
from admission.engine.model import Event, Flavor, TopologyRequest, Workload
from admission.simulation.run import simulate
from admission.world.world import Arrival, WorkloadFacts, World
from tests.admission.engine.builders import RACK, host, queue, racks, workload
from tests.bench.fragmented import FragmentedLoad, fragmented

KINDS: Final = {"train": (3600.0, 0.8), "tune": (900.0, 0.6), "eval": (120.0, 1.0), "notebook": (7200.0, 1.2)}
"""Median seconds and spread of the log-normal run times."""
QUOTA: Final = 64
RACKS: Final = 4
PACE: Final = 360.0
"""Seconds between two jobs on the racks for a load of 1."""
LOAD: Final = 0.9
"""The load of the racks: they are seldom whole, and gangs wait while quota is free."""
OVERLOAD: Final = 1.3
SPREAD: Final = TopologyRequest(unconstrained=True)
WAITING: Final = 1000
EVERY: Final = 10
EVERY_RACKED: Final = 2


Seen = tuple[float, float, StartForecast, bool]
"""When a job was first forecast, when it started, what it was told, and whether it requires a rack."""


class ForecastWorld(World):
    """A world that learns, forecasts and compares while it is played."""

    def __init__(self, seconds: dict[str, float], every: int) -> None:
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
                self.seen.append((made, self.now, one, self._requires(key)))
                self.calibrations = self.calibrations.after(self.now, one)
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
        return self.times.estimate(run_kind("ns/q", "Job", job.key))


def trace(jobs: int, seed: int) -> ForecastWorld:
    """Returns the trace: jobs of one to sixteen CPUs, a twentieth of them of a higher priority, a load of about 1."""
    draw = Random(seed)

    def made(key: str) -> Workload:
        return workload(key, 1, draw.choice((1, 1, 2, 4, 8, 16)), to=draw.choice("ab"))

    events: list[Event] = [Flavor("f"), *(queue(name, cohort="all", f=QUOTA) for name in "ab")]
    return _trace(jobs, draw, made, events, 190, EVERY)


def racked(jobs: int, seed: int, load: float = LOAD) -> ForecastWorld:
    """Returns the trace on racks of four hosts with 8 CPUs: a third of the jobs are gangs of one to four hosts of one rack."""
    draw = Random(seed)

    def made(key: str) -> Workload:
        to = draw.choice("ab")
        if draw.random() < 1 / 3:
            return workload(key, draw.randint(1, 4), 8, to=to, topology=TopologyRequest(required=RACK))
        return workload(key, draw.choice((1, 1, 2)), draw.choice((1, 2, 4)), to=to, topology=SPREAD)

    hosts = [host(f"r{rack}h{number}", f"r{rack}", 8) for rack in range(RACKS) for number in range(4)]
    events: list[Event] = [racks(), *hosts, *(queue(name, cohort="all", tas=8 * len(hosts)) for name in "ab")]
    return _trace(jobs, draw, made, events, PACE / load, EVERY_RACKED)


def _trace(
    jobs: int, draw: Random, made: Callable[[str], Workload], events: Sequence[Event], pace: float, every: int
) -> ForecastWorld:
    """Returns a trace of such jobs, one in so many seconds."""
    seconds, arrivals, at = dict[str, float](), [], 0.0
    for number in range(jobs):
        kind = draw.choice(sorted(KINDS))
        middle, spread = KINDS[kind]
        one, priority = made(f"job-{kind}-{number}-x{number % 10}b2c"), 10 if draw.random() < 0.05 else 0
        at += draw.expovariate(1 / pace)
        seconds[one.key] = min(36_000.0, middle * draw.lognormvariate(0, spread))
        arrivals.append(Arrival(at, replace(one, queued=at, priority=priority)))
    world = ForecastWorld(seconds, every)
    for event in events:
        world.apply(event)
    world.about = {key: WorkloadFacts(key, each) for key, each in seconds.items()}
    world.arrivals = arrivals
    return world


def cost(seed: int) -> tuple[float, float]:
    """Returns CPU seconds of a forecast of `WAITING` jobs, and the longest stretch between two pauses."""
    world = trace(WAITING + 400, seed)
    for arrival in world.arrivals[:400]:
        world.times.record(run_kind("ns/q", "Job", arrival.workload.key), world.seconds[arrival.workload.key])
    for arrival in world.arrivals[400:]:
        world.apply(replace(arrival.workload, queued=arrival.at - 1e9))
    while world.cycle().more:
        pass
    return _cost(world, world._estimate)


def cost_on_nodes(seed: int) -> tuple[int, float, float]:
    """Returns how many run, and the same for `WAITING` jobs on 15,000 nodes, nearly all of them gangs."""
    load = FragmentedLoad(30, 31, 16, 0.85, hours=3, small_per_hour=300, gangs_per_hour=500, seed=seed)
    world, times = fragmented(load), RunTimes()
    for key, facts in sorted(world.about.items()):
        times.record(run_kind("ns/q", "Job", key), facts.run_for or 0.0)
    for arrival in world.arrivals:
        if len(world.queues) == WAITING:
            break
        world.apply(replace(arrival.workload, queued=world.now))
        while world.cycle().more:
            pass
    return len(world.ledger.admissions), *_cost(world, lambda job: times.estimate(run_kind("ns/q", "Job", job.key)))


def _cost(world: World, estimate: Callable[[Workload], RunEstimate | None]) -> tuple[float, float]:
    gc.collect()
    gc.freeze()  # as the controller does, so that no collection counts
    longest, last = 0.0, process_time()

    def pause() -> None:
        nonlocal longest, last
        now = process_time()
        longest, last = max(longest, now - last), now

    began = process_time()
    found = forecast(inputs_of(world.ledger, world.queues, world.now, estimate, pause), pause=pause)
    seconds = process_time() - began
    confidence = max(one.confidence for one in found.values())
    print(f"{len(world.queues)} waiting, {len(found)} of them forecast, confidence {confidence:.0%}")
    return seconds, longest


def run(jobs: int = 3000, seed: int = 1) -> None:
    """Prints calibration and cost."""
    traces = {
        "quota": trace(jobs, seed),
        "racks": racked(jobs, seed),
        f"racks at a load of {OVERLOAD}": racked(jobs // 2, seed, OVERLOAD),
    }
    for title, world in traces.items():
        simulate(world)
        print(f"{title}: {len(world.seen)} of {len(world.seconds)} jobs waited and were forecast")
        counted = world.seen[len(world.seen) // 5 :]
        for kind in sorted({rack for _, _, _, rack in counted}):
            _print_calibration([each for each in counted if each[3] == kind], "require a rack" if kind else "others")
        for name, placed in sorted({(one.queue, one.placed) for _, _, one, _ in world.seen}):
            early, late = world.calibrations.of(name, placed=placed).factors()
            print(f"  at the end of queue {name}: first starts times {early:.2f}, last ones times {late:.2f}")
    seconds, longest = cost(seed)
    print(f"  by quota: {seconds:.2f} CPU s; at most {longest * 1000:.1f} ms between two pauses")
    running, seconds, longest = cost_on_nodes(seed)
    print(
        f"  on 15,000 nodes, where {running} run: {seconds:.2f} CPU s; at most {longest * 1000:.1f} ms between two pauses"
    )


def _print_calibration(counted: Sequence[Seen], name: str) -> None:
    held = sum(one.earliest <= start <= one.until for _, start, one, _ in counted)
    early = sum(start < one.earliest for _, start, one, _ in counted)
    unknown = sum(one.latest is None for _, _, one, _ in counted)
    waits = median([start - made for made, start, _, _ in counted])
    widths = median([one.until - one.earliest for _, _, one, _ in counted])
    stated = [one.confidence for _, _, one, _ in counted]
    print(f"  {name}: {held / len(counted):.1%} of {len(counted)} started within their interval, {early} earlier,")
    print(
        f"    {len(counted) - held - early} later; {unknown} were told no latest start; "
        f"wait {waits:.0f} s and interval {widths:.0f} s (medians);"
    )
    print(f"    they were told a confidence of {median(stated):.0%} (median), at least {min(stated):.0%}")
