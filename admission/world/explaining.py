"""Finds a workload by its own name or its job's, and explains it. `stowage explain` and the dashboard call it."""

from __future__ import annotations

from dataclasses import replace

from admission.engine.cycle.feature import CycleContext
from admission.engine.explain.cycle_decision import DecisionInputs
from admission.engine.explain.explain import explain
from admission.engine.explain.explanation import Explanation, Verdict
from admission.engine.features import features_of
from admission.engine.model import Workload
from admission.engine.reasons import Reason
from admission.integrations.owners import managed_kinds
from admission.world.world import World
from api.errors import StowageError


class UnknownWorkload(StowageError):
    """The name matches no workload, or several; the message quotes it."""


def found(world: World, name: str) -> tuple[str, list[str]]:
    """Returns the key of the workload that `name` identifies, and the keys of earlier workloads of the same job name.

    `name` is the key of a Workload, or of its job or gang. A job that is deleted and created again leaves its old Workload
    for a while, so a Workload that is not being deleted takes precedence, then the youngest. Raises UnknownWorkload.
    """
    if world.workload(name) is not None:
        return name, []
    keys = sorted(key for key, about in world.about.items() if about.title.split(" ", 1)[1:] == [name])
    known = [key for key in keys if world.workload(key) is not None]
    if len(titles := sorted({world.title(key) for key in known})) > 1:
        raise UnknownWorkload(f"{name!r} is the name of several: {', '.join(titles)}; give one of {', '.join(known)}")
    if known:
        known.sort(key=lambda key: (world.about[key].going, -world.about[key].created, key))
        return known[0], known[1:]
    if name in world.gangs:
        return name, []
    if faults := [str(fault) for fault in world.faults if any(key in fault.object for key in (name, *keys))]:
        raise UnknownWorkload(f"{name!r} was not taken in: {'; '.join(faults)}")
    if keys:
        raise UnknownWorkload(f"{name!r} is neither waiting nor admitted: its Workload {keys[0]} is finished")
    raise UnknownWorkload(
        f"{name!r} is not known: no Workload and no job with a queue name has this name. Managed are "
        f"{', '.join(managed_kinds())}; a JobKind declares any other kind"
    )


def explained(world: World, key: str) -> Explanation:
    """Returns the explanation of a workload. Raises UnknownWorkload if the world has none of that key."""
    workload = world.workload(key)
    if workload is None and key in world.gangs:  # an incomplete gang has no Workload yet: explain why
        return Explanation(key, "", Verdict.BLOCKED, Reason.SUSPENDED, world.gangs[key])
    if workload is None:
        raise UnknownWorkload(f"{key!r} is not known")
    inputs = DecisionInputs(world.queues, world.sharing, world.startable)
    checks = world.about[key].checks if key in world.about else ""
    features_of(CycleContext(world.ledger, world.queues, world.now, world.sharing is not None)).before_cycle()
    ahead = _workloads_ahead(world, workload)
    explanation = explain(world.ledger, workload, world.now, ahead=ahead, inputs=inputs, checks=checks)
    return replace(explanation, forecast=world.about[key].forecast) if key in world.about else explanation


def _workloads_ahead(world: World, workload: Workload) -> list[str]:
    """Returns the keys of the workloads before this one in its queue."""
    active = [other.key for other in world.queues.active(workload.cluster_queue)]
    return active[: active.index(workload.key)] if workload.key in active else []
