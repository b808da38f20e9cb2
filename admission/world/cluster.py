"""A world from a live cluster: every kind listed once, in pages, nothing written, nothing watched.

The lists are taken one after the other, so they are not of one instant: where an admission and its pods were seen on both
sides of a change, the ledger counts as the controller does whose watch is a moment behind.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import msgspec

from admission.controllers.views import BOUND_PODS
from admission.engine.model import PlacementOptions
from admission.world.objects import KINDS, Objects
from admission.world.world import BUDGET, About, Fault, World
from api.errors import Forbidden, InvalidObject, NotFound
from api.kube.client import Kube
from api.kube.resources import CONFIG_MAPS, PODS, Resource
from api.meta import find_condition, parse_time
from api.names import ADMITTED, SAKKARA_TOPOLOGY
from api.sakkara import TOPOLOGY_NAMESPACE
from api.workloads import Workload

CLUSTER = "the cluster"
_PAGE = 500


async def from_cluster(
    kube: Kube, options: PlacementOptions | None = None, *, now: float | None = None, budget: int = BUDGET
) -> World:
    """What the controller sees, at this moment. Raises api.errors.ApiError where the cluster does not answer.

    Kinds that are not installed count as empty; objects that do not decode are left out and named in `faults`.
    """
    return (await load_cluster(kube, options, now=now, budget=budget))[0]


async def load_cluster(
    kube: Kube, options: PlacementOptions | None = None, *, now: float | None = None, budget: int = BUDGET
) -> tuple[World, Objects]:
    """As `from_cluster`, with the objects, for whoever wants to add to them."""
    world = World(options, now=time.time() if now is None else now, budget=budget)
    objects = Objects(world.books)
    for kind in KINDS:
        async for raw in _all(kube, kind):
            try:
                objects.add(kind, bytes(raw))
            except InvalidObject as bad:
                world.faults.append(Fault(CLUSTER, bad.obj, f"{bad.field}: {bad.given!r}: {bad.allowed}"))
    for workload in objects.sight.workloads.objects.values():
        world.about[workload.key] = about(workload)
        if (misfit := objects.misfit(workload)) is not None:
            world.faults.append(Fault(CLUSTER, f"Workload {workload.key}", misfit))
    return world, objects


async def _all(kube: Kube, kind: Resource) -> AsyncIterator[msgspec.Raw]:
    selection = {"field_selector": BOUND_PODS} if kind is PODS else {}
    if kind is CONFIG_MAPS:
        selection = {"namespace": TOPOLOGY_NAMESPACE, "label_selector": SAKKARA_TOPOLOGY}
    after: str | None = None
    while True:
        try:
            page = await kube.list_raw(kind, limit=_PAGE, continue_=after, **selection)
        except NotFound:
            return
        except Forbidden:
            if kind is CONFIG_MAPS:  # few may read them, and few clusters have any
                return
            raise
        for raw in page.items:
            yield raw
        if not (after := page.continue_):
            return
        await asyncio.sleep(0)


def about(workload: Workload, title: str | None = None, run_for: float | None = None) -> About:
    """What the Workload says of itself; its owner's kind and name are what people call it."""
    owner = next((o for o in workload.metadata.owner_references if o.controller), None)
    name = f"{owner.kind} {workload.metadata.namespace}/{owner.name}" if owner else f"Workload {workload.key}"
    admitted = find_condition(workload.status.conditions, ADMITTED)
    since = parse_time(admitted.last_transition_time) if admitted and admitted.status == "True" else None
    limit = workload.spec.maximum_execution_time_seconds
    return About(title or name, run_for if run_for is not None else limit, since)
