"""A Workload's queues, checks and validation error, and whether they block its admission. Pure.

`cluster_view` builds the context, `lifecycle` decides the next step from it, and `feed` passes blocked workloads to the
engine.
"""

from __future__ import annotations

from dataclasses import dataclass

from admission.controllers.state import conditions
from admission.engine.reasons import Reason
from admission.integrations.owners import foreign_owner, managed_kinds
from api.meta import find_condition
from api.names import ADMISSION_GATED_BY, ELASTIC_QUOTA, WAITING_FOR_REPLACEMENT_PODS, ReplacementReason
from api.queues import ClusterQueue, LocalQueue, StopPolicy
from api.workloads import Workload


@dataclass(frozen=True, slots=True)
class AdmissionContext:
    """What a Workload's admission depends on."""

    local_queue: LocalQueue | None
    cluster_queue: ClusterQueue | None
    cluster_queue_active: bool
    """The queue's Active condition."""
    namespace_matches: bool = True
    validation_error: str | None = None
    checks: tuple[str, ...] = ()
    """The admission checks that apply to the Workload."""
    waits_for_slice: str | None = None
    """Why the Workload cannot replace the slice that it names; None if it can."""
    refusal: tuple[str, str] | None = None
    """Why its pods would be rejected or never bound, whatever capacity is free, as (reason, message)."""
    gated_by: bool = True
    """Whether the annotation `admission-gated-by` takes effect."""
    decided: str | None = None
    """The reason, as written, for which the latest cycle lets the Workload wait."""


def blocker(workload: Workload, context: AdmissionContext) -> tuple[str, str] | None:
    """Returns why a cycle must not evaluate the Workload, as (reason, message), or None if it may."""
    queue = workload.spec.queue_name
    gates = workload.metadata.annotations.get(ADMISSION_GATED_BY, "")
    owner = foreign_owner(workload)
    if owner is not None:
        text = f"{owner.api_version} {owner.kind} {owner.name} owns this Workload, and Stowage does not manage its kind"
        return Reason.OWNER_NOT_MANAGED, f"{text}; it manages {', '.join(managed_kinds())}"
    if not workload.spec.active:
        return Reason.DEACTIVATED, "The workload is deactivated"
    if gates and context.gated_by:
        return Reason.ADMISSION_GATED, f"Admission is gated by: {gates}"
    if conditions.is_on_hold(workload.status):
        return Reason.ON_HOLD, conditions.HOLD
    lacking = find_condition(workload.status.conditions, WAITING_FOR_REPLACEMENT_PODS)
    if lacking is not None and lacking.status == "True":
        counted = lacking.reason == ReplacementReason.GANG_WAITING
        return Reason.SUSPENDED, lacking.message if counted else "Some pods need replacement"
    if context.local_queue is None:
        cause = ": the namespace has no ElasticQuota" if queue == ELASTIC_QUOTA else ""
        return Reason.MISCONFIGURED, f"LocalQueue {queue} doesn't exist{cause}"
    if context.local_queue.spec.stop_policy is not StopPolicy.NONE:
        return Reason.SUSPENDED, f"LocalQueue {queue} is inactive"
    target = context.local_queue.spec.cluster_queue
    if context.cluster_queue is None:
        return Reason.MISCONFIGURED, f"ClusterQueue {target} doesn't exist"
    if context.cluster_queue.spec.stop_policy is not StopPolicy.NONE or not context.cluster_queue_active:
        return Reason.SUSPENDED, f"ClusterQueue {target} is inactive"
    if not context.namespace_matches:
        return Reason.MISCONFIGURED, conditions.NAMESPACE_MISMATCH
    if context.refusal is not None:
        return context.refusal
    if context.waits_for_slice is not None:
        return Reason.MISCONFIGURED, context.waits_for_slice
    if context.validation_error is not None:
        return Reason.MISCONFIGURED, f"{conditions.INVALID_RESOURCES}{context.validation_error}"
    return None
