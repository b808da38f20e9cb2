"""Plans moves in a world for a waiting workload or a whole domain, and shows what would fit afterwards. Changes nothing.

`stowage defrag` calls it. The engine plans; this module chooses for what, and compares the cluster before and after.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from admission.engine.features.moves.levels import one_named
from admission.engine.features.moves.movers import moves_left
from admission.engine.features.moves.plan import PlanOptions, plan
from admission.engine.features.moves.plans import MovePlan, NoPlan, NoPlanReason
from admission.engine.features.moves.vacate import vacate
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import CPU, HOSTNAME_LABEL, ClusterQueue, Workload
from admission.engine.queue.cluster_queue import order_of
from admission.engine.queue.queues import PendingQueues
from admission.engine.topology.questions.figures import CapacityFigures, FlavorFigures, State
from admission.engine.topology.tree.tree_spec import Values
from admission.world.snapshot import capture_world, from_snapshot
from admission.world.world import World
from api.errors import StowageError
from api.meta import parse_time

MOST_TRIED: Final = 50
"""Waiting workloads for which a plan is sought if none is named."""
BUDGET: Final = 20_000
"""Sets that one plan examines: five times as many as a plan of the controller, since a user waits for this one."""


@dataclass(frozen=True, slots=True)
class DomainRoom:
    """The free amount of a domain before and after the moves, of `total`."""

    path: Values
    before: int
    after: int
    total: int


@dataclass(frozen=True, slots=True)
class FlavorRoom:
    """What the moves change on the nodes of a flavor; amounts are of `resource`, in the engine's units.

    `gangs` has (level, pod shape, pods of the largest gang before, after), widest level first. `domains` has the domains above
    the hosts, widest first.
    """

    flavor: str
    resource: str
    gangs: tuple[tuple[str, str, int, int], ...]
    domains: tuple[DomainRoom, ...]


@dataclass(frozen=True, slots=True)
class Defragmentation:
    """The plan for one target, or why there is none. `target` names it for users. `rooms` is empty without a plan."""

    target: str
    result: MovePlan | NoPlan
    rooms: tuple[FlavorRoom, ...] = field(default=())


class UnknownLevel(StowageError):
    """No flavor has the level, or its last word names several."""


def for_workloads(world: World, keys: Sequence[str], level: str = "") -> list[Defragmentation]:
    """Returns a plan for each of these waiting workloads alone; with `level`, as if it required one domain of that level.

    Raises UnknownLevel.
    """
    results, level = [], _level(world, level) if level else ""
    decided = None if level else _after_cycles(world)
    for key in keys:
        workload = world.workload(key)
        if workload is None:
            results.append(Defragmentation(world.title(key), NoPlan(NoPlanReason.BLOCKED, "it was not taken in")))
        else:
            results.append(_shown(world, world.title(key), _planned(world, workload, level, decided)))
    return results


def for_waiting(world: World) -> list[Defragmentation]:
    """Returns the plan for the first waiting workload that moves can help, after why the ones before it have none."""
    results, decided = [], _after_cycles(world)
    for workload in sorted(world.queues.workloads(), key=order_of)[:MOST_TRIED]:
        results.append(_shown(world, world.title(workload.key), _planned(world, workload, "", decided)))
        if isinstance(results[-1].result, MovePlan):
            break
    return results


def for_domain(world: World, level: str) -> Defragmentation:
    """Returns the cheapest plan that makes a domain of the level free, on any flavor. Raises UnknownLevel."""
    level = _level(world, level)
    options = PlanOptions(moves_left(world.ledger, world.now), BUDGET)
    flavors = [name for name, tree in sorted(world.ledger.capacity.trees.items()) if tree.level_of(level) is not None]
    results = [vacate(world.ledger, flavor, level, world.now, options) for flavor in flavors]
    plans = [one for one in results if isinstance(one, MovePlan)]
    best = min(plans, key=lambda plan: plan.certificate.cost) if plans else results[0]
    return _shown(world, f"a free domain of {level}", best)


def _levels(world: World) -> list[str]:
    return sorted({name for tree in world.ledger.capacity.trees.values() for name in tree.shape.levels})


def _level(world: World, word: str) -> str:
    """Returns the level that the word names: its node label, or the last word of that if only one level has it.

    Raises UnknownLevel.
    """
    names = _levels(world)
    if (level := one_named(names, word)) is None:
        raise UnknownLevel(f"no flavor has the level {word!r}; levels are {', '.join(names) or 'none'}")
    return level


def _planned(world: World, workload: Workload, level: str, decided: PendingQueues | None) -> MovePlan | NoPlan:
    wait = None if level else _longest_wait(world, workload, decided)
    options = PlanOptions(moves_left(world.ledger, world.now), BUDGET, wait)
    return plan(world.ledger, _required(workload, level) if level else workload, world.now, options)


def _after_cycles(world: World) -> PendingQueues | None:
    """Returns the queues as the next cycles leave them, which reserve starts; None if no queue does.

    The cycles run on a copy. No object says which starts are reserved, and messages that do so may have been written by others.
    """
    if not any(one.reserves_starts for one in world.ledger.quota.specs() if isinstance(one, ClusterQueue)):
        return None
    copy = from_snapshot(capture_world(world))
    while copy.cycle().more:
        pass
    return copy.queues


def _longest_wait(world: World, workload: Workload, decided: PendingQueues | None) -> float | None:
    """Returns the seconds until the start that is reserved for it, else until the latest one that the controller
    expects; None without either.
    """
    if decided is not None and (start := decided.starts.start_of(workload)) is not None:
        return start - world.now
    facts = world.about.get(workload.key)
    try:
        latest = parse_time(facts.latest_start) if facts is not None else None
    except ValueError:  # others may write the status, too
        return None
    return None if latest is None or latest <= world.now else latest - world.now


def _required(workload: Workload, level: str) -> Workload:
    pod_sets = tuple(
        replace(pod_set, topology=replace(pod_set.topology, required=level, preferred=None, unconstrained=None))
        if pod_set.topology is not None
        else pod_set
        for pod_set in workload.pod_sets
    )
    return replace(workload, pod_sets=pod_sets)


# ---- before and after


def _shown(world: World, target: str, result: MovePlan | NoPlan) -> Defragmentation:
    if isinstance(result, NoPlan):
        return Defragmentation(target, result)
    ledger = world.ledger
    flavors = sorted(
        {flavor for move in result.moves for pods in move.before.pod_sets for flavor in pods.flavors.values()}
    )
    before = {flavor: _figures(ledger, flavor) for flavor in flavors}
    with _moved(ledger, result):
        after = {flavor: _figures(ledger, flavor) for flavor in flavors}
    rooms = []
    for flavor in flavors:
        one, other = before[flavor], after[flavor]
        if one is not None and other is not None:
            rooms.append(_room(flavor, one, other))
    return Defragmentation(target, result, tuple(rooms))


@contextmanager
def _moved(ledger: Ledger, plan: MovePlan) -> Iterator[None]:
    """Opens a trial in which the movers have left and run in their new places; the gang has not started."""
    with ledger.trial():
        workloads = {move.workload: ledger.workload(move.workload) for move in plan.moves}
        for key in workloads:
            ledger.remove_with_pods(key)
        for move in plan.moves:
            if (workload := workloads[move.workload]) is not None:
                ledger.charge(workload, move.after)
        yield


def _figures(ledger: Ledger, flavor: str) -> FlavorFigures | None:
    steps = CapacityFigures(ledger.capacity).of(flavor, (), ())
    while True:
        try:
            next(steps)
        except StopIteration as done:
            figures: FlavorFigures | None = done.value
            return figures


def _room(flavor: str, before: FlavorFigures, after: FlavorFigures) -> FlavorRoom:
    resource = _main_resource(before.totals)
    gangs = tuple(
        (one.level, shape, most, other.gangs.get(shape, 0))
        for one, other in zip(before.levels, after.levels, strict=True)
        for shape, most in one.gangs.items()
        if not shape.endswith(f" {CPU}") or resource == CPU
    )
    above = [one for one in before.levels if one.level != HOSTNAME_LABEL] or before.levels
    domains = tuple(
        DomainRoom(path, int(free), int(later), int(total))
        for one, other in zip(above, after.levels, strict=False)
        for path, free, later, total in zip(
            one.paths,
            one.amounts[resource][State.FREE],
            other.amounts[resource][State.FREE],
            np.sum(list(one.amounts[resource].values()), axis=0),
            strict=True,
        )
    )
    return FlavorRoom(flavor, resource, gangs, domains)


def _main_resource(totals: Mapping[str, object]) -> str:
    """Returns the resource that is scarce on such nodes: the first extended one, else cpu."""
    extended = sorted(name for name in totals if "/" in name)
    return extended[0] if extended else CPU
