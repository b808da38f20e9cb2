"""Calibration and cost of forecasts of starts on generated traces.

    python -m tests.bench forecast [--jobs 400] [--seeds 3] [--first-seed 1]

Jobs of four kinds come to two queues of one cohort and wait (forecast_traces.py): at loads of 0.7 to 1.5, by quota alone and on
racks, where a third of them are gangs that require one; in bursts of twenty; with run times of a heavy tail; and with limits
that most jobs declare and few reach. The real engine plays each trace (`stowage simulate`). Nothing is known at first. After
every third job that waits (on racks, every second) all are forecast from what has ended by then, and each job's first interval
is compared with its real start, from the first job on.

The table has, over all seeds of a trace, how many waited, which part started within its interval, what confidence they had been
told on average, and the same for the first twenty of each seed.

It takes about four minutes of a quiet machine. The cost is that of 1,000 waiting jobs by quota, and of 1,000 on 15,000 nodes
(fragmented.py).
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from statistics import mean, median
from time import process_time
from typing import Final

from admission.engine.features.forecast.inputs import inputs_of
from admission.engine.features.forecast.run_times import RunEstimate, RunTimes, run_kind
from admission.engine.features.forecast.starts import forecast
from admission.engine.model import Workload
from admission.simulation.run import simulate
from admission.world.world import World
from tests.bench.forecast_traces import Seen, Traffic, trace
from tests.bench.fragmented import FragmentedLoad, fragmented

LOADS: Final = (0.7, 0.9, 1.1, 1.3, 1.5)
TRACES: Final = {
    **{f"quota, load {load}": Traffic(load) for load in LOADS},
    **{f"racks, load {load}": Traffic(load, racked=True) for load in LOADS},
    "quota, bursts, load 0.9": Traffic(0.9, burst=20),
    "quota, bursts, load 1.1": Traffic(1.1, burst=20),
    "racks, bursts, load 0.9": Traffic(0.9, burst=20, racked=True),
    "quota, heavy tail, load 0.9": Traffic(0.9, tail=1.7),
    "racks, heavy tail, load 0.9": Traffic(0.9, tail=1.7, racked=True),
    "quota, limits, load 1.0": Traffic(1.0, limits=0.6),
    "racks, limits, load 1.0": Traffic(1.0, limits=0.6, racked=True),
}
FIRST: Final = 20
WAITING: Final = 1000


def cost(seed: int) -> tuple[float, float]:
    """Returns CPU seconds of a forecast of `WAITING` jobs, and the longest stretch between two pauses."""
    world = trace(WAITING + 400, seed, Traffic())
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


def run(jobs: int = 400, seeds: int = 3, first_seed: int = 1) -> None:
    """Prints calibration and cost."""
    print(
        "| trace | waited | held | said | difference | no latest start | first 20: held | said | wait, interval (medians) |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    everything: list[Sequence[Seen]] = []
    for title, traffic in TRACES.items():
        worlds = [trace(jobs, seed, traffic) for seed in range(first_seed, first_seed + seeds)]
        for world in worlds:
            simulate(world)
        scenes = [sorted(world.seen, key=lambda each: each.made) for world in worlds]
        everything += scenes
        print(row(title, scenes), flush=True)
    print(row("all", everything))
    seconds, longest = cost(first_seed)
    print(f"  by quota: {seconds:.2f} CPU s; at most {longest * 1000:.1f} ms between two pauses")
    running, seconds, longest = cost_on_nodes(first_seed)
    print(
        f"  on 15,000 nodes, where {running} run: {seconds:.2f} CPU s; at most {longest * 1000:.1f} ms between two pauses"
    )


def row(title: str, scenes: Sequence[Sequence[Seen]]) -> str:
    """Returns the row of a table for these scenes, each in the order in which its jobs were told."""
    every = [each for scene in scenes for each in scene if each.told.until < inf]
    first = [each for scene in scenes for each in [one for one in scene if one.told.until < inf][:FIRST]]
    if not every:
        return f"| {title} | 0 | | | | | | | |"
    held, said = share(every)
    unknown = sum(each.told.latest is None for each in every)
    wait, width = (
        median(some)
        for some in ([one.start - one.made for one in every], [one.told.until - one.told.earliest for one in every])
    )
    begin = " | ".join(f"{each:.1%}" for each in share(first))
    return (
        f"| {title} | {len(every)} | {held:.1%} | {said:.1%} | {100 * (held - said):+.1f} | {unknown} | {begin} "
        f"| {wait:,.0f} s, {width:,.0f} s |"
    )


def share(some: Sequence[Seen]) -> tuple[float, float]:
    """Returns which part of these started within their interval, and the mean confidence that they were told."""
    return mean(each.held for each in some), mean(each.told.confidence for each in some)
