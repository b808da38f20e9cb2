"""Finds pods of an earlier start that a suspended Job still has although its status counts none.

Kubernetes' Job controller creates pods first and counts them in the status later. A Job that is suspended in between looks at
rest, and if it starts again before the Job controller has seen the suspension, it keeps pods in the places of the earlier
admission. So the API server is asked for such pods before the quota of an evicted Job is released, and before the template of
a stopped one is restored. Both are rare, and both precede every restart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from admission.controllers.jobs.actions import JobPlan, PatchJob
from admission.controllers.jobs.ancestors import children_of
from admission.controllers.state.actions import SetStatus
from admission.integrations.base import Job, JobIntegration, as_parent
from admission.integrations.job import BatchJob
from api import names
from api.kube.client import Kube
from api.kube.resources import JOBS, PODS
from api.meta import is_true

RETRY: Final = 1.0
"""Seconds until a job with such pods is reconciled again: the Job controller ends them as soon as it sees the suspension."""


class _JobPodOwner(msgspec.Struct, gc=False):
    uid: str = ""
    controller: bool | None = None


class _JobPodMeta(msgspec.Struct, rename="camel", gc=False):
    deletion_timestamp: str | None = None
    owner_references: tuple[_JobPodOwner, ...] = ()


class _JobPodStatus(msgspec.Struct, gc=False):
    phase: str = ""


class _JobPod(msgspec.Struct, gc=False):
    metadata: _JobPodMeta = msgspec.field(default_factory=_JobPodMeta)
    status: _JobPodStatus = msgspec.field(default_factory=_JobPodStatus)

    def runs_for(self, owners: Sequence[str]) -> bool:
        """Reports whether a Job with one of these uids controls the pod and the pod neither ended nor is being deleted."""
        if self.metadata.deletion_timestamp or self.status.phase in ("Succeeded", "Failed"):
            return False
        return any(owner.controller and owner.uid in owners for owner in self.metadata.owner_references)


def ends_a_start(plan: JobPlan, job: Job, kind: JobIntegration) -> bool:
    """Reports whether the plan releases the quota or restores the template of a suspended job."""
    return kind.is_suspended(job) and any(
        _releases(action) if isinstance(action, SetStatus) else isinstance(action, PatchJob) and not _starts(action)
        for action in plan.actions
    )


def _releases(action: SetStatus) -> bool:
    before, after = action.workload.status.conditions, action.status.conditions
    return is_true(before, names.QUOTA_RESERVED) and not is_true(after, names.QUOTA_RESERVED)


def _starts(action: PatchJob) -> bool:
    return (action.patch.get("spec") or {}).get("suspend") is False


async def has_leftover_pods(kube: Kube, job: Job, kind: JobIntegration) -> bool:
    """Asks the API server for such pods of a Job, or of the Jobs of a JobSet; other kinds are not known to have any.

    Only pods that a Job controls count: its controller ends or disowns them, so a pod with a forged owner holds no quota for
    long. Raises ApiErrors.
    """
    meta = job["metadata"]
    if isinstance(kind, BatchJob):
        owners: Sequence[Job] = [job]
        labels = _selector(job)
    elif (above := as_parent(kind)) is not None:
        owners = await children_of(kube, job, above, JOBS)
        labels = {above.children_label: meta["name"]}
    else:
        return False
    ours = [each for each in owners if (each.get("spec") or {}).get("managedBy") in (None, names.JOB_CONTROLLER)]
    uids = [each["metadata"].get("uid", "") for each in ours]
    if not uids or not labels:
        return False
    selector = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    page = await kube.list(PODS, meta.get("namespace"), decode=_JobPod, label_selector=selector)
    return any(pod.runs_for(uids) for pod in page.items)


def _selector(job: Job) -> Mapping[str, Any]:
    """Returns the Job's selector, which the API server generates, or validates against the template if a user wrote it."""
    return ((job.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
