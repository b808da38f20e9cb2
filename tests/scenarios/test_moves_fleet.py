"""The story of marin#8925 at its size: 64 nodes in NVLink domains of 16, small jobs everywhere, no domain whole."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from api.kube.resources import CLUSTER_QUEUES, EVENTS, JOBS, PODS
from api.meta import find_condition, is_true, parse_time
from api.names import (
    ADMITTED,
    EVICTED,
    EXPLANATION,
    FINISHED,
    MINIMUM_RUN_TIME,
    MOVABLE,
    PREFER_TOPOLOGY,
    REQUIRE_TOPOLOGY,
)
from tests.scenarios.site import RACK, Site, eventually
from tests.scenarios.test_moves_made import ENVIRONMENT as MOVES_ON
from tests.scenarios.test_moves_made import moves_of

pytestmark = pytest.mark.asyncio(loop_scope="session")
ENVIRONMENT = MOVES_ON
SHARES_STAGE = True

MakeSite = Callable[[str], Site]

DOMAINS, NODES_OF_DOMAIN = 4, 16
JOBS_OF_DOMAIN = (6, 5, 5, 4)
"""Jobs of two nodes each that still run in each domain, in the order in which they were filled: 40 nodes are in use, 24 are
free, and at most 8 in one domain. The last one has the fewest and the youngest jobs, so its jobs lose the least."""


@dataclass(frozen=True)
class Shape:
    """`gpus` of a node, and the pods of a small job of two nodes with the GPUs of each."""

    gpus: int
    pods: int
    each: int


SHAPES = {
    "one-gpu": Shape(gpus=1, pods=2, each=1),
    "four-gpus": Shape(gpus=4, pods=4, each=2),
}


async def all_run(here: Site, names: list[str], pods: int) -> dict[str, list[dict[str, Any]]]:
    """The pods of each job, once so many of each run."""

    async def check() -> dict[str, list[dict[str, Any]]] | None:
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
        for pod in (await here.kube.list(PODS, here.name)).items:
            job = pod["metadata"].get("labels", {}).get("batch.kubernetes.io/job-name")
            running = pod.get("status", {}).get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
            if job in found and running:
                found[job].append(pod)
        return found if all(len(some) == pods for some in found.values()) else None

    return await eventually(f"{pods} running pods of each of {len(names)} jobs", check)


async def scattered(here: Site, shape: Shape) -> dict[str, list[str]]:
    """Fills the fleet with small jobs of equal priority, then ends some; returns those that run on, by domain."""
    here.gpus_per_host = shape.gpus
    await here.open({"b1": {f"r{n}": NODES_OF_DOMAIN for n in range(DOMAINS)}})
    names = [f"small-{n}" for n in range(DOMAINS * NODES_OF_DOMAIN // 2)]
    terms = {PREFER_TOPOLOGY: RACK, MINIMUM_RUN_TIME: "0s"}
    for name in names:
        await here.submit(here.job(name, shape.pods, terms, gpus=shape.each))
    by_domain: dict[str, list[str]] = {}
    pods = await all_run(here, names, shape.pods)
    for name in names:
        (domain,) = await here.racks(pods[name])
        by_domain.setdefault(domain, []).append(name)
    for domain, kept in zip(list(by_domain), JOBS_OF_DOMAIN, strict=True):
        ended = by_domain[domain][kept:]
        by_domain[domain] = by_domain[domain][:kept]
        await asyncio.gather(*(here.remove(JOBS, name) for name in ended))
    return by_domain


async def told_what_would_free_a_rack(here: Site) -> str:
    async def told() -> str | None:
        workload = await here.workload_of("gang")
        found = None if workload is None else find_condition(workload.status.conditions, EXPLANATION)
        return found.message if found is not None and "would leave" in found.message else None

    return await eventually("the status says what would free a rack", told)


async def plans_begun(here: Site) -> list[dict[str, Any]]:
    """The events about the plans for the gang, with the work that the movers lose; the first may come after the moves."""

    async def told() -> list[dict[str, Any]] | None:
        events = (await here.kube.list(EVENTS, here.name)).items
        return [one for one in events if one["reason"] == "PlaceHeld"] or None

    return await eventually("an event says what the moves lose", told)


async def started(here: Site, names: list[str]) -> dict[str, float]:
    """When each job was admitted, in epoch seconds; the admission outlasts a move."""
    found = {}
    for name in names:
        workload = await here.workload_of(name)
        assert workload is not None
        admitted = find_condition(workload.status.conditions, ADMITTED)
        assert admitted is not None
        found[name] = parse_time(admitted.last_transition_time) or 0.0
    return found


def least_loss(since: Mapping[str, float], by_domain: Mapping[str, list[str]], now: float, devices: int) -> float:
    """The device-seconds that the cheapest domain loses: all of its jobs have to leave, whatever is done."""
    return min(sum(devices * (now - since[name]) for name in names) for names in by_domain.values())


@pytest.mark.parametrize("size", ["four-gpus", pytest.param("one-gpu", marks=pytest.mark.long)])
async def test_a_gang_waits_for_a_domain_and_gets_one_once_moves_are_allowed(site: MakeSite, size: str) -> None:
    here, shape = site(f"marin-{size}"), SHAPES[size]
    by_domain = await scattered(here, shape)
    cheapest, small = list(by_domain)[-1], [name for names in by_domain.values() for name in names]
    since = await started(here, small)
    await here.submit(here.job("gang", NODES_OF_DOMAIN, {REQUIRE_TOPOLOGY: RACK}, gpus=shape.gpus))

    await here.waits("gang", "TopologyPlacementFailed", "allows to fit only 8 out of 16 pod(s)")
    text = await told_what_would_free_a_rack(here)
    assert f"would leave {cheapest} for other places" in text
    assert f"on ClusterQueue {here.name}" in text
    assert not [name for name in small if moves_of(await here.workload_of(name))]

    await here.change(CLUSTER_QUEUES, here.name, {"metadata": {"annotations": {MOVABLE: "true"}}}, cluster=True)
    assert list(await here.racks(await here.running("gang", NODES_OF_DOMAIN))) == [cheapest]
    moved, pods = [], await all_run(here, small, shape.pods)
    for name in small:
        assert cheapest not in await here.racks(pods[name])
        workload = await here.workload_of(name)
        assert workload is not None
        assert not [kind for kind in (EVICTED, FINISHED) if is_true(workload.status.conditions, kind)]
        moved += [name] * moves_of(workload)
    assert sorted(moved) == sorted(by_domain[cheapest])  # each of them once, and nobody else

    (plan,) = await plans_begun(here)
    said = re.search(r"lose (\d+) device-seconds", plan["message"])
    assert said is not None, plan["message"]
    lost, devices = int(said[1]), shape.pods * shape.each
    now = parse_time(plan.get("lastTimestamp") or plan["eventTime"])
    assert now is not None
    rounded = devices * len(moved)  # times in statuses are whole seconds
    assert lost <= 1.1 * least_loss(since, by_domain, now, devices) + rounded
    print(f"{size}: {len(moved)} moves lose {lost} device-seconds ({lost / 3600:.3f} GPU-hours)")
