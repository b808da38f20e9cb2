"""Lists what users have set and what has no effect; a condition names it, so none of it is ignored silently. Pure.

These are fields that are not supported yet, and annotations of features whose value cannot be read: they keep no workload
waiting. Each function returns the paths, for an unreadable value with the value and what is allowed.
The change that implements a field removes it here.
"""

from __future__ import annotations

from collections.abc import Sequence

from api.annotations import of_features
from api.meta import Condition, find_condition, rfc3339, set_condition
from api.names import DEFAULT_QUEUE, FIELDS_HONOURED, MANAGED_NAMESPACE, PREEMPTION_CONFIG, FieldsHonouredReason
from api.queues import USAGE_BASED, ClusterQueue, LocalQueue
from api.workloads import Workload


def of_cluster_queue(queue: ClusterQueue, *, by_usage: bool = False) -> list[str]:
    """Returns the fields for migration between flavors, for admission by past usage unless that is on (`by_usage`), and the
    annotation that names a PreemptionConfig.
    """
    spec, fields = queue.spec, []
    if (spec.admission_scope or {}).get("admissionMode") == USAGE_BASED and not by_usage:
        fields.append("spec.admissionScope (without the setting admissionFairSharing.usageHalfLifeTime)")
    if spec.concurrent_admission_policy is not None:
        fields.append("spec.concurrentAdmissionPolicy")
    if PREEMPTION_CONFIG in queue.metadata.annotations:
        fields.append(
            f"the annotation {PREEMPTION_CONFIG} (spec.preemption decides, also where only the place is missing)"
        )
    return fields + _unreadable(of_features.faults_of_cluster_queue(queue.metadata.annotations))


def of_workload(workload: Workload) -> list[str]:
    """Returns the annotations of features that cannot be read."""
    return _unreadable(of_features.faults_of_job(workload.metadata.annotations))


def _unreadable(faults: of_features.Faults) -> list[str]:
    return [f"{fault.field} ({fault.given!r:.64}: {fault.allowed})" for fault in faults]


def of_local_queue(queue: LocalQueue, *, by_usage: bool = False, opted_in: bool = True) -> list[str]:
    """Returns the weight unless the ClusterQueue admits by past usage (`by_usage`), the name `default` unless jobs of the
    namespace get a default queue (`opted_in`), and annotations that cannot be read.
    """
    sharing = queue.spec.fair_sharing
    without = "spec.fairSharing (the ClusterQueue does not admit by past usage)"
    fields = [without] if sharing is not None and sharing.weight is not None and not by_usage else []
    if queue.metadata.name == DEFAULT_QUEUE and not opted_in:
        fields.append(
            f'the name "{DEFAULT_QUEUE}" (jobs without a queue name get this queue only in a namespace with the label '
            f"{MANAGED_NAMESPACE}=true)"
        )
    return fields + _unreadable(of_features.faults_of_class(queue.metadata.annotations))


def noted(
    conditions: tuple[Condition, ...], fields: Sequence[str], generation: int, now: float
) -> tuple[Condition, ...]:
    """Returns the conditions with FieldsHonoured; the same object if there was never anything to report or nothing changes."""
    old = find_condition(conditions, FIELDS_HONOURED)
    if old is None and not fields:
        return conditions
    message = f"set, but without effect yet: {', '.join(fields)}" if fields else "every field that is set has effect"
    new = Condition(
        type=FIELDS_HONOURED,
        status="False" if fields else "True",
        reason=FieldsHonouredReason.NOT_SUPPORTED if fields else FieldsHonouredReason.ALL_HONOURED,
        message=message,
        observed_generation=generation,
        last_transition_time=rfc3339(now),
    )
    if old is not None and (old.status, old.message, old.observed_generation) == (new.status, message, generation):
        return conditions
    return set_condition(conditions, new)
