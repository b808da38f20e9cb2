"""Computes the Active conditions of ClusterQueue, LocalQueue and Cohort. Pure.

Reasons are checked in the order of the code; the first becomes the reason, and all messages are joined, as in Kueue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from admission.engine.model import UnansweredCheck
from api.admission_checks import AdmissionCheck
from api.meta import find_condition, is_true
from api.names import ACTIVE, MULTIKUEUE, PROVISIONING, ActiveReason
from api.queues import ClusterQueue, Cohort, LocalQueue, StopPolicy
from api.topology import ResourceFlavor, Topology

_OF_CHECKS = (ActiveReason.CHECK_NOT_FOUND, ActiveReason.CHECK_INACTIVE, ActiveReason.CHECK_NOT_SUPPORTED)


@dataclass(frozen=True, slots=True)
class Activity:
    """Value, reason and message of an Active condition."""

    active: bool
    reason: str
    message: str
    unanswered: tuple[UnansweredCheck, ...] = ()
    """Admission checks that no controller answers."""
    only_checks: bool = False
    """Whether nothing else keeps the queue inactive."""


def flavors_of(queue: ClusterQueue) -> list[str]:
    """Returns the distinct flavors of all resource groups, in order."""
    return list(dict.fromkeys(quotas.name for group in queue.spec.resource_groups for quotas in group.flavors))


def checks_of(queue: ClusterQueue) -> list[str]:
    """Returns the names of the queue's admission checks."""
    strategy = queue.spec.admission_checks_strategy
    return [rule.name for rule in strategy.admission_checks] if strategy else []


def cohorts_above(name: str | None, cohorts: Mapping[str, Cohort]) -> list[str]:
    """Returns the cohorts from `name` up to the root; those of a cycle once each."""
    above: list[str] = []
    while name and name not in above:
        above.append(name)
        cohort = cohorts.get(name)
        name = cohort.spec.parent_name if cohort else None
    return above


def cohort_cycle(name: str | None, cohorts: Mapping[str, Cohort]) -> list[str]:
    """Returns the cohorts of the cycle above `name`, in order from the first that is reached; empty if there is no cycle."""
    seen: list[str] = []
    while name:
        if name in seen:
            return seen[seen.index(name) :]
        seen.append(name)
        cohort = cohorts.get(name)
        name = cohort.spec.parent_name if cohort else None
    return []


def cohort_activity(name: str, cohorts: Mapping[str, Cohort]) -> Activity:
    """Returns a Cohort's Active condition, which Kueue lacks: False if the cohort or an ancestor is its own ancestor."""
    cycle = cohort_cycle(name, cohorts)
    if not cycle:
        return Activity(True, ActiveReason.READY, "The queues below can admit")
    return Activity(False, ActiveReason.COHORT_CYCLE, f"No queue below can admit: {_circle('cohorts', cycle)}.")


def _circle(whose: str, cycle: list[str]) -> str:
    return f"{whose} are each other's parents: {' -> '.join([*cycle, cycle[0]])}"


def cluster_queue_activity(
    queue: ClusterQueue,
    flavors: Mapping[str, ResourceFlavor],
    topologies: Mapping[str, Topology],
    checks: Mapping[str, AdmissionCheck],
    cohorts: Mapping[str, Cohort] | None = None,
) -> Activity:
    """Returns a ClusterQueue's Active condition."""
    if queue.metadata.deletion_timestamp:
        return Activity(False, ActiveReason.TERMINATING, "Can't admit new workloads; clusterQueue is terminating")
    obstacles = list(_obstacles(queue, flavors, topologies, checks))
    if cycle := cohort_cycle(queue.spec.cohort_name, cohorts or {}):
        obstacles.append((ActiveReason.COHORT_CYCLE, _circle("its cohorts", cycle)))
    unanswered = tuple(_unanswered(queue, checks))
    if not obstacles:
        return Activity(True, ActiveReason.READY, "Can admit new workloads", unanswered)
    text = f"Can't admit new workloads: {', '.join(text for _, text in obstacles)}."
    only_checks = all(reason in _OF_CHECKS for reason, _ in obstacles)
    return Activity(False, obstacles[0][0], text, unanswered, only_checks)


def _unanswered(queue: ClusterQueue, checks: Mapping[str, AdmissionCheck]) -> Iterable[UnansweredCheck]:
    for name in checks_of(queue):
        if (check := checks.get(name)) is None:
            yield UnansweredCheck(name)
            continue
        controller, conditions = check.spec.controller_name, check.status.conditions
        supported = controller not in (MULTIKUEUE, PROVISIONING)
        if not supported or not is_true(conditions, ACTIVE):
            condition = find_condition(conditions, ACTIVE)
            yield UnansweredCheck(name, controller, supported, "" if condition is None else condition.message)


def _obstacles(
    queue: ClusterQueue,
    flavors: Mapping[str, ResourceFlavor],
    topologies: Mapping[str, Topology],
    checks: Mapping[str, AdmissionCheck],
) -> Iterable[tuple[str, str]]:
    if queue.spec.stop_policy is not StopPolicy.NONE:
        yield ActiveReason.STOPPED, "is stopped"
    missing = [name for name in flavors_of(queue) if name not in flavors]
    if missing:
        yield ActiveReason.FLAVOR_NOT_FOUND, f"references missing ResourceFlavor(s): {','.join(missing)}"
    yield from _check_obstacles(queue, flavors, checks)
    for name in flavors_of(queue):
        flavor = flavors.get(name)
        topology = flavor.spec.topology_name if flavor else None
        if topology is not None and topology not in topologies:
            yield ActiveReason.TOPOLOGY_NOT_FOUND, f'there is no Topology "{topology}" for TAS flavor "{name}"'


def _check_obstacles(
    queue: ClusterQueue, flavors: Mapping[str, ResourceFlavor], checks: Mapping[str, AdmissionCheck]
) -> Iterable[tuple[str, str]]:
    names = checks_of(queue)
    missing = [name for name in names if name not in checks]
    if missing:
        yield ActiveReason.CHECK_NOT_FOUND, f"references missing AdmissionCheck(s): {','.join(missing)}"
    inactive = [name for name in names if name in checks and not is_true(checks[name].status.conditions, ACTIVE)]
    if inactive:
        yield ActiveReason.CHECK_INACTIVE, f"references inactive AdmissionCheck(s): {','.join(inactive)}"
    if not any(name in flavors and flavors[name].topology_aware for name in flavors_of(queue)):
        return
    refused = [n for n in names if n in checks and checks[n].spec.controller_name in (MULTIKUEUE, PROVISIONING)]
    if refused:
        listed = ",".join(refused)
        text = f"topology flavors cannot be combined with MultiKueue or ProvisioningRequest AdmissionCheck(s): {listed}"
        yield ActiveReason.CHECK_NOT_SUPPORTED, text


def local_queue_activity(queue: LocalQueue, target: ClusterQueue | None, target_active: bool) -> Activity:
    """Returns a LocalQueue's Active condition."""
    if queue.spec.stop_policy is not StopPolicy.NONE:
        return Activity(False, ActiveReason.STOPPED, "LocalQueue is stopped")
    if target is None:
        return Activity(False, ActiveReason.CLUSTER_QUEUE_MISSING, "Can't submit new workloads to clusterQueue")
    if not target_active:
        return Activity(False, ActiveReason.CLUSTER_QUEUE_INACTIVE, "Can't submit new workloads to clusterQueue")
    return Activity(True, ActiveReason.READY, "Can submit new workloads to localQueue")
