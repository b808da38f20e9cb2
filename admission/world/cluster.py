"""Builds a world from a live cluster: lists every kind once, in pages, and neither writes nor watches.

The lists are taken one after the other and so are not from one instant. If an admission and its pods were read on both sides
of a change, the ledger counts them as a controller with a slightly stale watch would.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from admission.controllers.watch.cluster_view import WATCHED
from admission.controllers.watch.workload_conversion import no_guess
from admission.integrations.declared.referenced import keep_referenced
from admission.integrations.job_kinds import declare
from admission.integrations.registry import REFERENCED_KINDS
from admission.world.learned import learned_guess
from admission.world.objects import Objects
from admission.world.rules import WorldRules
from admission.world.sakkara_maps import waiting
from admission.world.workload_facts import about, add_gangs, add_states
from admission.world.world import RejectedObject, World
from api.errors import Forbidden, InvalidObject, NotFound
from api.kube.client import Kube
from api.kube.resources import (
    CONFIG_MAPS,
    JOB_KINDS,
    POD_GROUPS,
    SIGS_POD_GROUPS,
    Resource,
)
from api.names import SAKKARA_GROUP

CLUSTER = "the cluster"
_PAGE = 500


async def from_cluster(kube: Kube, rules: WorldRules | None = None, *, now: float | None = None) -> World:
    """Returns the world of a live cluster at `now` (epoch seconds; default: the current time).

    Raises api.errors.ApiError if the cluster does not answer. Kinds that are not installed count as empty. `faults` names
    objects that do not decode, and dispensable kinds that the user may not read.
    """
    return (await load_cluster(kube, rules, now=now))[0]


async def load_cluster(
    kube: Kube, rules: WorldRules | None = None, *, now: float | None = None
) -> tuple[World, Objects]:
    """Returns the world like `from_cluster`, and its objects for callers that add to them."""
    rules = rules or WorldRules()
    problems = await _declare_kinds(kube) + await _keep_referenced(kube)
    world = World.under(rules, time.time() if now is None else now)
    world.faults += problems
    guess, faults = await learned_guess(kube, rules.run_times) if rules.run_times else (no_guess, [])
    world.faults += faults
    objects = Objects(world.state, rules, guess)
    for kind in (*WATCHED, POD_GROUPS, SIGS_POD_GROUPS):
        for selection in _selections(kind, rules.trees):
            try:
                await _add(kube, kind, selection, world, objects)
            except Forbidden as refused:
                if kind not in WATCHED or not WATCHED[kind].without:
                    raise
                message = f"{WATCHED[kind].without} are not known: {refused.message}"
                world.faults.append(RejectedObject(CLUSTER, f"{kind.kind}s", message))
                break
    workloads = objects.view.workloads.objects.values()
    for workload in workloads:
        world.about[workload.key] = about(workload)
        if (validation_error := objects.validation_error(workload)) is not None:
            world.faults.append(RejectedObject(CLUSTER, f"Workload {workload.key}", validation_error))
    add_states(world, workloads)
    world.keep_time()
    add_gangs(world, objects.pod_groups.values(), waiting(objects.group_maps))
    for config_map in objects.config_maps:
        if (problem := objects.map_problem(config_map)) is not None:
            world.faults.append(RejectedObject(CLUSTER, f"ConfigMap {config_map}", problem))
    return world, objects


async def _declare_kinds(kube: Kube) -> list[RejectedObject]:
    """Registers the cluster's JobKinds and returns those that cannot be used."""
    rejected: list[RejectedObject] = []
    try:
        async for raw in _all(kube, JOB_KINDS, {}):
            obj = msgspec.json.decode(raw)
            try:
                declare(obj)
            except InvalidObject as bad:
                name = obj["metadata"]["name"]
                rejected.append(
                    RejectedObject(CLUSTER, f"JobKind {name}", f"{bad.field}: {bad.given!r}: {bad.allowed}")
                )
    except Forbidden as refused:
        rejected.append(
            RejectedObject(CLUSTER, "JobKinds", f"kinds that they declare are not known: {refused.message}")
        )
    return rejected


async def _keep_referenced(kube: Kube) -> list[RejectedObject]:
    """Caches the objects that jobs refer to, such as TrainingRuntimes; returns the kinds that the user may not read."""
    objects: list[dict[str, Any]] = []
    problems: list[RejectedObject] = []
    for kind in REFERENCED_KINDS:
        named = {"apiVersion": kind.api_version, "kind": kind.kind}
        try:
            objects += [{**named, **msgspec.json.decode(raw)} async for raw in _all(kube, kind, {})]
        except Forbidden as refused:
            text = f"jobs that refer to one are not known: {refused.message}"
            problems.append(RejectedObject(CLUSTER, kind.plural, text))
    keep_referenced(REFERENCED_KINDS, objects)
    return problems


def _selections(kind: Resource, trees: str) -> tuple[Mapping[str, str], ...]:
    """Returns the selectors of a kind's list requests."""
    watched = WATCHED.get(kind)
    selection = watched.selection(trees) if watched is not None else {}
    return (selection, {"label_selector": SAKKARA_GROUP}) if kind is CONFIG_MAPS else (selection,)


async def _add(kube: Kube, kind: Resource, selection: Mapping[str, str], world: World, objects: Objects) -> None:
    async for raw in _all(kube, kind, selection):
        try:
            if kind in WATCHED:
                objects.add(kind, bytes(raw))
            else:
                objects.add_pod_group(kind, msgspec.json.decode(raw))
        except InvalidObject as bad:
            world.faults.append(RejectedObject(CLUSTER, bad.obj, f"{bad.field}: {bad.given!r}: {bad.allowed}"))


async def _all(kube: Kube, kind: Resource, selection: Mapping[str, str]) -> AsyncIterator[msgspec.Raw]:
    after: str | None = None
    while True:
        try:
            page = await kube.list_raw(kind, limit=_PAGE, continue_=after, **selection)
        except NotFound:
            return
        for raw in page.items:
            yield raw
        if not (after := page.continue_):
            return
        await asyncio.sleep(0)
