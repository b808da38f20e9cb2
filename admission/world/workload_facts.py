"""Facts in a Workload's status that the engine does not read: title, times, pending admission checks, expected start.

Called by cluster.py and builder.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from admission.controllers.decide.readiness import unready
from admission.controllers.nodes.node_replacement import failed_nodes
from admission.controllers.state.checks import named
from admission.engine.features import held_records
from admission.engine.features.forecast.wording import NOTHING_TOLD, ToldStart, told_start
from admission.world.world import WorkloadFacts, World
from api import names
from api.groups import PodGroup
from api.meta import find_condition, is_true, parse_time
from api.names import GANG_STARTED, HOSTS_HELD, NOT_CREATED, UNSCHEDULABLE
from api.workloads import Workload

_STARTED: Final = (names.QUOTA_RESERVED, names.FINISHED)


def about(workload: Workload, title: str | None = None, run_for: float | None = None) -> WorkloadFacts:
    """Returns the facts of a Workload; the default title is its owner's kind and key. Raises ValueError for a bad time."""
    admitted = find_condition(workload.status.conditions, names.ADMITTED)
    since = parse_time(admitted.last_transition_time) if admitted and admitted.status == "True" else None
    limit = workload.spec.maximum_execution_time_seconds
    return WorkloadFacts(
        title or _title(workload),
        run_for if run_for is not None else limit,
        since,
        parse_time(workload.metadata.creation_timestamp) or 0.0,
        workload.metadata.deletion_timestamp is not None,
        _checks(workload),
        expected_start(workload).text,
    )


def _title(workload: Workload) -> str:
    meta, owner = workload.metadata, workload.owner
    if owner is not None:
        return f"{owner.kind} {meta.namespace}/{owner.name}"
    if names.IS_GROUP_WORKLOAD in meta.annotations:
        return group_title(workload.key, gang=names.GANG in meta.annotations)
    return f"Workload {workload.key}"


def group_title(key: str, *, gang: bool) -> str:
    """Returns the title of a pod group."""
    return f"{'PodGroup' if gang else 'Pods'} {key}"


def _checks(workload: Workload) -> str:
    states = workload.status.conditions
    if not is_true(states, names.QUOTA_RESERVED) or is_true(states, names.ADMITTED):
        return ""
    return named([check for check in workload.status.admission_checks if check.state != names.CheckState.READY])


def expected_start(workload: Workload) -> ToldStart:
    """Returns what the controller has told of the start of a waiting Workload; nothing if others have.

    Anybody who may write a status may write other messages.
    """
    states = workload.status.conditions
    told = find_condition(states, names.EXPECTED_START)
    if told is None or told.status != "True" or any(is_true(states, each) for each in _STARTED):
        return NOTHING_TOLD
    return told_start(told.message)


def add_gangs(world: World, groups: Iterable[PodGroup], reasons: Iterable[tuple[str, str]]) -> None:
    """Adds the gangs without a Workload, with the reason in their PodGroup or ConfigMap.

    `reasons` has pairs of key and reason.
    """
    world.gangs.update((key, message) for key, message in reasons if key not in world.about)
    for group in groups:
        condition = find_condition(group.status.conditions, GANG_STARTED)
        if group.key not in world.about and condition is not None and condition.status == "False":
            world.gangs[group.key] = condition.message


def add_states(world: World, workloads: Iterable[Workload]) -> None:
    """Adds which workloads lost a node, which have pods that are not ready, and which have pods that no node accepts or
    the API server refuses. Holds the hosts that they name beside their pods.
    """
    for workload in workloads:
        conditions = (find_condition(workload.status.conditions, kind) for kind in (UNSCHEDULABLE, NOT_CREATED))
        if told := [each.message for each in conditions if each is not None and each.status == "True"]:
            world.unbound[workload.key] = "; ".join(told)
        if nodes := failed_nodes(workload):
            world.failed[workload.key] = tuple(nodes)
        if unready(workload):
            world.unready.add(workload.key)
        held = find_condition(workload.status.conditions, HOSTS_HELD)
        if held is not None:
            held_records.hold_named(world.ledger, workload.key, held.message)
