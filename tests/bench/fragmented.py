"""A fragmented cluster as a world: every rack is in part full of small movable jobs, more of them come, and so do large gangs.

Nodes have 8 GPUs, and quota is never short. A small job has 2 to 32 GPUs, may be moved and go anywhere, and saves its work
every half hour; a restart costs it two minutes. A gang requires half a rack, a whole rack, or several racks of one block.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from admission.engine.model import (
    HOSTNAME_LABEL,
    Admission,
    Assignment,
    ClusterQueue,
    DomainCount,
    Flavor,
    FlavorQuotas,
    Node,
    PodSet,
    PodSetAdmission,
    Quota,
    ResourceGroup,
    RestartTerms,
    SliceLayer,
    TopologyRequest,
    Workload,
)
from admission.world.world import Arrival, WorkloadFacts, World

GPU: Final = "nvidia.com/gpu"
BLOCK, RACK = "block", "rack"
EACH: Final = 8
NOW: Final = 1_000_000.0
SMALL: Final = ((1, 2), (1, 4), (1, 8), (2, 8), (4, 8))
"""Pods and GPUs of each pod."""
SAVE_EVERY: Final = 1800.0
TERMS: Final = RestartTerms(movable=True, cost=120)


@dataclass(frozen=True)
class FragmentedLoad:
    """The cluster's shape, the part of each rack that is used at the start, and what comes in so many hours.

    `small_hours` and `gang_hours` are medians of run times. `racks_of_gang` is how many racks the largest gangs require.
    """

    blocks: int
    racks: int
    hosts: int
    filled: float
    hours: float
    small_per_hour: float
    gangs_per_hour: float
    small_hours: float = 4.0
    gang_hours: float = 2.0
    racks_of_gang: int = 3
    seed: int = 1


def is_large(workload: Workload) -> bool:
    """Reports whether it is one of the gangs."""
    return workload.restart.movable is not True


def fragmented(load: FragmentedLoad, kind: type[World] = World) -> World:
    """Returns the world at its start."""
    draw, world = Random(load.seed), kind(now=NOW)
    nodes = load.blocks * load.racks * load.hosts
    world.apply(Flavor("gpu", {}, topology="default", levels=(BLOCK, RACK, HOSTNAME_LABEL)))
    for name, labels in _hosts(load):
        world.apply(Node(name, labels, {"cpu": 96_000, GPU: EACH, "pods": 110}))
    quotas = FlavorQuotas("gpu", {"cpu": Quota(nodes * 96_000), GPU: Quota(nodes * EACH)})
    world.apply(ClusterQueue("q", (ResourceGroup(("cpu", GPU), (quotas,)),)))
    for made, since, lasts in _running(load, draw):
        world.about[made.key] = WorkloadFacts(made.key, lasts, since, save_every=SAVE_EVERY)
        world.apply(made)
    for at, made, lasts in sorted(_coming(load, draw), key=lambda each: each[0]):
        every = SAVE_EVERY if made.restart.movable else None
        world.about[made.key] = WorkloadFacts(made.key, lasts, save_every=every)
        world.arrivals.append(Arrival(NOW + at, replace(made, queued=NOW + at)))
    return world


def _hosts(load: FragmentedLoad) -> Iterator[tuple[str, dict[str, str]]]:
    for block in range(load.blocks):
        for rack in range(load.racks):
            for host in range(load.hosts):
                name = f"b{block:02d}-r{rack:02d}-h{host:02d}"
                yield name, {BLOCK: f"b{block:02d}", RACK: f"b{block:02d}-r{rack:02d}", HOSTNAME_LABEL: name}


def _running(load: FragmentedLoad, draw: Random) -> Iterator[tuple[Workload, float, float]]:
    """Yields small jobs for each rack up to its part: the workload, when it began, and how long it runs in all."""
    number = 0
    for block in range(load.blocks):
        for rack in range(load.racks):
            free = [(f"b{block:02d}-r{rack:02d}-h{host:02d}", EACH) for host in range(load.hosts)]
            draw.shuffle(free)
            most, used, room = load.filled * load.hosts * EACH * draw.uniform(0.7, 1.3), 0, dict(free)
            while used < most:
                pods, gpus = draw.choice(SMALL)
                chosen = [name for name, left in room.items() if left >= gpus][:pods]
                if len(chosen) < pods:
                    break
                for name in chosen:
                    room[name] -= gpus
                used, number = used + pods * gpus, number + 1
                lasts = _lasts(draw, load.small_hours)
                since = NOW - lasts * draw.random()
                made = _small(f"ns/old-{number:05d}", pods, gpus)
                yield _admitted(made, chosen, since), since, lasts


def _lasts(draw: Random, hours: float) -> float:
    return float(round(min(24.0, max(0.25, hours * draw.lognormvariate(0, 0.7))) * 3600))


def _admitted(workload: Workload, hosts: list[str], since: float) -> Workload:
    pod_set = workload.pod_sets[0]
    assignment = Assignment((HOSTNAME_LABEL,), tuple(DomainCount((name,), 1) for name in sorted(hosts)))
    usage = {name: amount * pod_set.count for name, amount in pod_set.requests.items()}
    got = PodSetAdmission("main", dict.fromkeys(usage, "gpu"), usage, pod_set.count, assignment)
    return replace(workload, admission=Admission("q", (got,)), queued=since, reserved=since, admitted=since)


def _small(key: str, pods: int, gpus: int) -> Workload:
    return _workload(key, pods, gpus, TopologyRequest(unconstrained=True), TERMS)


def _workload(key: str, pods: int, gpus: int, topology: TopologyRequest, terms: RestartTerms) -> Workload:
    pod_set = PodSet("main", pods, {"cpu": gpus * 8000, GPU: gpus}, topology=topology)
    return Workload(key, key, "ns/lq", "q", (pod_set,), restart=terms)


def _coming(load: FragmentedLoad, draw: Random) -> Iterator[tuple[float, Workload, float]]:
    for number, at in enumerate(_times(draw, load.small_per_hour, load.hours)):
        yield at, _small(f"ns/new-{number:05d}", *draw.choice(SMALL)), _lasts(draw, load.small_hours)
    rack, several = load.hosts, load.racks_of_gang
    shapes = (
        (max(1, rack // 2), TopologyRequest(required=RACK)),
        (rack, TopologyRequest(required=RACK)),
        (rack * several, TopologyRequest(required=BLOCK, slices=(SliceLayer(RACK, rack),))),
    )
    for number, at in enumerate(_times(draw, load.gangs_per_hour, load.hours)):
        pods, topology = draw.choice(shapes)
        yield (
            at,
            _workload(f"ns/gang-{number:04d}", pods, EACH, topology, RestartTerms()),
            _lasts(draw, load.gang_hours),
        )


def _times(draw: Random, per_hour: float, hours: float) -> Iterator[float]:
    at = 0.0
    while per_hour and (at := at + draw.expovariate(per_hour / 3600)) < hours * 3600:
        yield float(round(at))
