"""Whole loads on virtual time: without moves, with the moves of the controller, and with a descheduler (evict_and_hope.py).

    python -m tests.bench defrag-load [--only fragmented] [--hours 3]

kueue        Kueue's performance load as it is (simulate.py), small and medium jobs movable
kueue-tight  a fifth of its jobs, an hour for each second, five times more slowly and one queue after the other, on 60 nodes in
             racks of 3 with half as many CPUs as quota: room is short instead of quota
fragmented   15,000 nodes of 8 GPUs in racks of 15, each half full of small movable jobs; large gangs come (fragmented.py)

The gangs are the large jobs. Waits are of virtual time; those that still wait at the end count with their wait so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import inf
from time import process_time
from typing import Any, Final

from admission.engine.model import PlacementOptions, Workload
from admission.simulation.comparison import LoadFigures, Selects, figures_of_load
from admission.simulation.moves.maker import Moves
from admission.simulation.result import WaitFigures
from admission.simulation.room_maker import MakerOf
from admission.simulation.run import SimulationOptions, simulate_with
from admission.simulation.tables import clock
from admission.webhook.rules.review_rules import ReviewRules
from admission.world.documents import Document
from admission.world.files import from_documents
from admission.world.rules import WorldRules
from admission.world.world import World
from api import names
from tests.bench import simulate
from tests.bench.evict_and_hope import EvictAndHope
from tests.bench.fragmented import FragmentedLoad, fragmented, is_large

ARMS: Final[Mapping[str, MakerOf | None]] = {"without": None, "moves": Moves, "evict and hope": EvictAndHope}
FRAGMENTED: Final = FragmentedLoad(
    blocks=25,
    racks=40,
    hosts=15,
    filled=0.5,
    hours=3,
    small_per_hour=1200,
    gangs_per_hour=20,
    small_hours=3,
    racks_of_gang=4,
)
HOUR: Final = 3600
LARGE: Final = 200
"""The priority of the large jobs of Kueue's load."""


def kueue(load: Mapping[str, Any]) -> World:
    """Returns Kueue's load; all but the large jobs may be moved."""
    documents = [*simulate.cluster(dict(load)), *simulate.jobs(dict(load))]
    for one in documents:
        _allow(one)
    return from_documents(documents, WorldRules(webhook=ReviewRules(placement=PlacementOptions())))


def _apart(world: World) -> World:
    """Lets the jobs of each queue come a while after those of the queue before, not all in one instant."""
    number = {name: index for index, (_, name) in enumerate(sorted(simulate.queues(simulate.LOAD)))}
    later = [replace(one, at=one.at + 720.0 * number[one.workload.cluster_queue]) for one in world.arrivals]
    world.arrivals = sorted(
        (replace(one, workload=replace(one.workload, queued=one.at)) for one in later), key=lambda item: item.at
    )
    return world


def _allow(document: Document) -> None:
    if document.object["kind"] == "WorkloadPriorityClass" and document.object["value"] != LARGE:
        document.object["metadata"]["annotations"] = {names.MOVABLE: "true", names.MOVE_COST: "60s"}


def tight(load: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a fifth of the load's jobs, an hour for each second and five times more slowly, on nodes with half the quota."""
    classes = {
        name: {
            **of,
            "seconds": of["seconds"] * HOUR,
            "every_ms": of["every_ms"] * HOUR * 5,
            "sets": [[mode, count // 5, slices] for mode, count, slices in of["sets"]],
        }
        for name, of in load["classes"].items()
    }
    nodes = {**load["nodes"], "racks": 20, "hosts": 3, "cpu": "10"}
    return {**load, "classes": classes, "nominal": "40", "nodes": nodes}


def _is_large_of_kueue(workload: Workload) -> bool:
    return workload.priority == LARGE


def loads(hours: float) -> Iterator[tuple[str, Callable[[], World], SimulationOptions, Selects]]:
    """Yields name, world, options and which workloads are the gangs."""
    public = simulate.LOAD
    yield "kueue", lambda: kueue(public), SimulationOptions(), _is_large_of_kueue
    yield (
        "kueue-tight",
        lambda: _apart(kueue(tight(public))),
        SimulationOptions(until=60 * HOUR, save_every=600.0),
        _is_large_of_kueue,
    )
    big = replace(FRAGMENTED, hours=hours)
    until = SimulationOptions(until=hours * HOUR if hours else inf)
    yield "fragmented", lambda: fragmented(big), until, is_large


def run(only: str = "", hours: float = FRAGMENTED.hours) -> None:
    """Prints the figures of each load and arm."""
    for name, made, options, is_gang in loads(hours):
        if only not in ("", name):
            continue
        print(name)
        for arm, maker in ARMS.items():
            world, begun = made(), process_time()
            outcome = simulate_with(world, replace(options, maker=maker))
            _show(arm, figures_of_load(outcome, is_gang), process_time() - begun)


def _show(arm: str, load: LoadFigures, cpu: float) -> None:
    (use,) = [share for _, name, share in load.use if name == max(name for _, name, _ in load.use)]
    print(f"  {arm:<15} gangs {_waits(load.gangs)}; others {_waits(load.others)}")
    lost = f"{load.relocations} moves, {load.evictions} evictions, {load.lost / HOUR:.1f} device-hours lost"
    print(
        f"  {'':<15} from arrival to end {clock(load.turnaround)} (others); {load.finished} finished; {lost}; use {use:.1%}; "
        f"{cpu:.0f} s on a processor",
        flush=True,
    )


def _waits(wait: WaitFigures) -> str:
    waits = f"{clock(wait.mean)} mean, {clock(wait.median)} median, {clock(wait.p95)} 95 %, {clock(wait.most)} longest"
    return f"{wait.admitted} of {wait.count}, {waits}"


if __name__ == "__main__":
    run()
