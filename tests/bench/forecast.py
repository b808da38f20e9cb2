"""Calibration and cost of forecasts of starts on a generated trace.

    python -m tests.bench forecast [--jobs 3000] [--seed 1]

Jobs of four kinds come to two queues of one cohort and wait. The real engine plays the trace (`stowage simulate`); after every
tenth arrival all waiting jobs are forecast from what has ended by then, and each job's first interval is compared with its real
start. The first fifth of the jobs teaches and is not counted.
"""

from __future__ import annotations

import gc
from dataclasses import replace
from math import inf
from random import Random
from statistics import median
from time import process_time
from typing import Final

from admission.engine.cycle.cycle import CycleReport
from admission.engine.forecast.calibration import Calibrations
from admission.engine.forecast.inputs import inputs_of
from admission.engine.forecast.run_times import RunEstimate, RunTimes, run_kind
from admission.engine.forecast.starts import StartForecast, forecast
from admission.engine.model import Event, Flavor, Workload
from admission.simulation.run import simulate
from admission.world.world import Arrival, WorkloadFacts, World
from tests.admission.engine.builders import queue, workload

KINDS: Final = {"train": (3600.0, 0.8), "tune": (900.0, 0.6), "eval": (120.0, 1.0), "notebook": (7200.0, 1.2)}
"""Median seconds and spread of the log-normal run times."""
QUOTA: Final = 64
WAITING: Final = 1000
EVERY: Final = 10


class ForecastWorld(World):
    """A world that learns, forecasts and compares while it is played."""

    def __init__(self, seconds: dict[str, float]) -> None:
        super().__init__()
        self.seconds, self.times, self.calibrations = seconds, RunTimes(), Calibrations()
        self.told: dict[str, tuple[float, StartForecast]] = {}
        self.seen: list[tuple[float, float, StartForecast]] = []
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
                self.seen.append((made, self.now, one))
                self.calibrations = self.calibrations.after(
                    self.now, one.earliest, one.latest or inf, placed=one.placed
                )
        self._running = {key: self._running.get(key, self.now) for key in held}
        waiting = {one.key for one in self.queues.workloads()}
        if len(waiting - self._known) >= EVERY:
            self._known |= waiting
            inputs = inputs_of(self.ledger, self.queues, self.now, self._estimate)
            running = tuple(replace(one, since=self._running[one.key]) for one in inputs.running)
            for key, one in forecast(replace(inputs, running=running), self.calibrations).items():
                self.told.setdefault(key, (self.now, one))
        return report

    def _estimate(self, job: Workload) -> RunEstimate | None:
        return self.times.estimate(run_kind("ns/q", "Job", job.key))


def trace(jobs: int, seed: int) -> ForecastWorld:
    """Returns the trace: jobs of one to sixteen CPUs, a twentieth of them of a higher priority, a load of about 1."""
    draw, seconds, arrivals, at = Random(seed), dict[str, float](), [], 0.0
    for number in range(jobs):
        kind = draw.choice(sorted(KINDS))
        middle, spread = KINDS[kind]
        key = f"job-{kind}-{number}-x{number % 10}b2c"
        cpus, priority = draw.choice((1, 1, 2, 4, 8, 16)), 10 if draw.random() < 0.05 else 0
        at += draw.expovariate(1 / 190)
        made = workload(key, 1, cpus, to=draw.choice("ab"), queued=at, priority=priority)
        seconds[key] = min(36_000.0, middle * draw.lognormvariate(0, spread))
        arrivals.append(Arrival(at, made))
    world = ForecastWorld(seconds)
    events: list[Event] = [Flavor("f"), *(queue(name, cohort="all", f=QUOTA) for name in "ab")]
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
    gc.collect()
    gc.freeze()  # as the controller does, so that no collection counts
    longest, last = 0.0, process_time()

    def pause() -> None:
        nonlocal longest, last
        now = process_time()
        longest, last = max(longest, now - last), now

    began = process_time()
    forecast(inputs_of(world.ledger, world.queues, 0.0, world._estimate, pause), world.calibrations, pause=pause)
    return process_time() - began, longest


def run(jobs: int = 3000, seed: int = 1) -> None:
    """Prints calibration and cost."""
    world = trace(jobs, seed)
    simulate(world)
    counted = world.seen[len(world.seen) // 5 :]
    held = sum(one.earliest <= start <= (one.latest or inf) for _, start, one in counted)
    early = sum(start < one.earliest for _, start, one in counted)
    waits = median([start - made for made, start, _ in counted])
    widths = median([(one.latest or inf) - one.earliest for _, _, one in counted])
    print(
        f"{len(counted)} of {jobs} jobs waited and were forecast; {held / len(counted):.1%} started within their interval"
    )
    print(
        f"  {early} earlier, {len(counted) - held - early} later; wait {waits:.0f} s and interval {widths:.0f} s (medians)"
    )
    print(f"  factors of the ends: {world.calibrations}")
    seconds, longest = cost(seed)
    print(f"{WAITING} waiting jobs: {seconds:.2f} CPU s; at most {longest * 1000:.1f} ms between two pauses")
