"""Derives PodsReady and reclaimable pods of a Workload from its job. Pure."""

from __future__ import annotations

from admission.controllers.conditions import with_condition
from admission.integrations.base import Job, JobIntegration, as_reclaiming
from api.meta import find_condition, is_true
from api.names import ADMITTED, PODS_READY, PodsReadyReason
from api.workloads import WorkloadStatus

# After these reasons a pod that is not ready has failed. Older versions wrote "PodsReady".
_HAD_STARTED = frozenset((PodsReadyReason.STARTED, PodsReadyReason.RECOVERED, PodsReadyReason.WAIT_FOR_RECOVERY))


def with_pods_ready(status: WorkloadStatus, ready: bool, now: float, generation: int = 0) -> WorkloadStatus:
    """Returns the status with an up-to-date PodsReady condition; the same object if nothing changes."""
    old = find_condition(status.conditions, PODS_READY)
    started = old is not None and (old.reason in _HAD_STARTED or old.status == "True")
    admitted = is_true(status.conditions, ADMITTED)
    if ready and admitted:
        recovered = old is not None and old.reason in (PodsReadyReason.WAIT_FOR_RECOVERY, PodsReadyReason.RECOVERED)
        reason, message = (
            PodsReadyReason.RECOVERED if recovered else PodsReadyReason.STARTED,
            "All pods reached readiness and the workload is running",
        )
    elif started and admitted:
        reason, message = PodsReadyReason.WAIT_FOR_RECOVERY, "At least one pod has failed, waiting for recovery"
    else:
        reason, message = PodsReadyReason.WAIT_FOR_START, "Not all pods are ready or succeeded"
    value = ready and admitted
    if old is not None and (old.status, old.reason) == ("True" if value else "False", reason):
        return status
    return with_condition(status, PODS_READY, value, reason, message, now, generation)


def with_reclaimable(status: WorkloadStatus, kind: JobIntegration, job: Job) -> WorkloadStatus:
    """Returns the status with the job's reclaimable pods, whose counts never decrease while quota is reserved."""
    reclaiming = as_reclaiming(kind)
    if reclaiming is None or not is_true(status.conditions, ADMITTED):
        return status
    known = {pod.name: pod.count for pod in status.reclaimable_pods}
    done = reclaiming.reclaimable_pods(job)
    grown = any(pod.count > known.get(pod.name, 0) for pod in done)
    return status.model_copy(update={"reclaimable_pods": done}) if grown else status
