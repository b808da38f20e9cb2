"""Maintains condition WaitingForReplacementPods, which tells whether a group's Workload is short of pods. Pure; part of
`pod_plan`.

A Workload that waits for pods is not considered for admission. While pods of an evicted Workload are being stopped the
condition stays unchanged, since their replacements are still to come.
"""

from __future__ import annotations

from admission.controllers.jobs.plan.pod_counts import admitted_counts
from admission.controllers.state.conditions import with_condition
from admission.integrations.pods.podgroup import PodUnit
from api.meta import find_condition, is_true
from api.names import ADMITTED, EVICTED, GANG, WAITING_FOR_REPLACEMENT_PODS, ReplacementReason
from api.workloads import Workload, WorkloadStatus


def with_replacements(status: WorkloadStatus, unit: PodUnit, workload: Workload, now: float) -> WorkloadStatus:
    """Returns the status with an updated condition, or the same object if nothing changes."""
    old = find_condition(status.conditions, WAITING_FOR_REPLACEMENT_PODS)
    eviction = find_condition(status.conditions, EVICTED)
    evicted = eviction if eviction is not None and eviction.status == "True" else None
    wanted = sum(pod_set.count for pod_set in workload.spec.pod_sets)
    if (
        GANG in workload.metadata.annotations
    ):  # it may have started with its minimum; the others wait without being missed
        wanted = sum(admitted_counts(workload).values())
    if unit.fast:
        # Pods that were never created are not missing; until the group runs, one pod stands for all.
        running = evicted is None and is_true(status.conditions, ADMITTED)
        wanted = min(wanted, len(unit.pods) if running else 1)
    waits = old is not None and old.status == "True"
    generation = workload.metadata.generation
    if sum(pod.lasting for pod in unit.pods) >= wanted:
        if not waits or (evicted is not None and not unit.suspended):
            return status
        message = "No pods need replacement"
        return with_condition(
            status, WAITING_FOR_REPLACEMENT_PODS, False, ReplacementReason.PODS_READY, message, now, generation
        )
    reason, message = ReplacementReason.PODS_FAILED, "Some Failed pods need replacement"
    if evicted is not None:
        reason, message = evicted.reason, evicted.message
    elif waits:
        return status
    if old is not None and waits and (old.reason, old.message) == (reason, message):
        return status
    return with_condition(status, WAITING_FOR_REPLACEMENT_PODS, True, reason, message, now, generation)


def with_shortage(workload: Workload, why: str | None, now: float) -> WorkloadStatus:
    """Returns a gang's status with an updated condition; `why` says how many pods it lacks."""
    kind, status, generation = WAITING_FOR_REPLACEMENT_PODS, workload.status, workload.metadata.generation
    old = find_condition(status.conditions, kind)
    if why is None:
        if old is None or old.status != "True":
            return status
        text = "No pods need replacement"
        return with_condition(status, kind, False, ReplacementReason.PODS_READY, text, now, generation)
    if old is not None and old.status == "True" and old.message == why:
        return status
    return with_condition(status, kind, True, ReplacementReason.GANG_WAITING, why, now, generation)
