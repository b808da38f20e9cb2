"""Derives PodsReady and reclaimable pods of a Workload from its job. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from admission.controllers.jobs.context import JobOptions
from admission.controllers.jobs.plan.pod_counts import admitted_counts
from admission.controllers.state.conditions import with_condition
from admission.integrations.base import Job, JobIntegration, as_reclaiming
from api.meta import find_condition, is_true
from api.names import ADMITTED, PODS_READY, PodsReadyReason
from api.workloads import PodSet, ReclaimablePod, Workload, WorkloadStatus

# After these reasons a pod that is not ready has failed. Older versions wrote "PodsReady".
_HAD_STARTED = frozenset((PodsReadyReason.STARTED, PodsReadyReason.RECOVERED, PodsReadyReason.WAIT_FOR_RECOVERY))


def is_readiness_kept(status: WorkloadStatus, options: JobOptions) -> bool:
    """Reports whether PodsReady is kept up to date: where the settings ask for it, and where another controller wrote it, since
    nobody else would ever correct it.
    """
    return options.wait_for_pods_ready or find_condition(status.conditions, PODS_READY) is not None


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


def with_reclaimable(
    workload: Workload, kind: JobIntegration, job: Job, pod_sets: Sequence[PodSet], *, release: bool
) -> WorkloadStatus:
    """Returns the Workload's status with the job's reclaimable pods; the same object if nothing changes.

    `pod_sets` are those of the job, which may ask for other counts than the Workload has quota for. What the job no longer
    needs of that quota is reclaimable, so the count falls when its pods come back. Without `release` nothing is.
    """
    status, reclaiming = workload.status, as_reclaiming(kind)
    if not release:
        done = dict[str, int]()
    elif reclaiming is None or not is_true(status.conditions, ADMITTED):
        return status
    else:
        done = {pod.name: pod.count for pod in reclaiming.reclaimable_pods(job)}
    granted = admitted_counts(workload)
    unneeded = {p.name: granted.get(p.name, 0) - p.count + done[p.name] for p in pod_sets if p.name in done}
    return with_reclaimed(status, {name: min(count, granted.get(name, 0)) for name, count in unneeded.items()})


def with_reclaimed(status: WorkloadStatus, done: Mapping[str, int]) -> WorkloadStatus:
    """Returns the status with these counts of reclaimable pods, without pod sets that have none."""
    left = {name: count for name, count in done.items() if count > 0}
    if left == {pod.name: pod.count for pod in status.reclaimable_pods}:
        return status
    pods = tuple(ReclaimablePod(name=name, count=count) for name, count in left.items())
    return status.model_copy(update={"reclaimable_pods": pods})
