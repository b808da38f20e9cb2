"""The adapter of batch/v1 Job, whose one pod set `main` has min(parallelism, completions) pods.

The API server (1.36) lets labels, annotations, nodeSelector, tolerations and scheduling gates of a Job's template change only
while the Job is suspended, has no active pods and either never started or carries Suspended=True; the unsuspending update may
change them too. So a start is one patch and a stop is two: suspend, then restore the template once the Job controller has
confirmed the suspension. Partial admission lowers parallelism at the start, and completions where the job requires them equal;
the stop restores both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from admission.integrations.base import Job, JobResult, Patch, has_condition, infos_by_name, patch_between, with_spec
from admission.integrations.base import condition as condition_of
from admission.integrations.podset import PodSetInfo, applied, kept_template, restored
from api import names
from api.annotations.requests import parse_bool, parse_int32, topology_request
from api.kube.resources import JOBS, Resource
from api.meta import parse_time
from api.workloads import PodSet, ReclaimablePod

MAIN: Final = "main"

# The API server writes these labels into a Job's template, and the Job's selector needs them there.
MANAGED_LABELS: Final = frozenset(("controller-uid", "job-name", names.CONTROLLER_UID_LABEL, names.JOB_NAME_LABEL))


def pods_of(spec: Mapping[str, Any]) -> int:
    """Returns the largest number of pods that a JobSpec runs at once."""
    parallelism, completions = _or(spec.get("parallelism"), 1), spec.get("completions")
    return parallelism if completions is None else min(parallelism, int(completions))


class BatchJob:
    """The adapter of batch/v1 Job; base.py documents the methods."""

    framework: Final = "batch/job"
    resource: Final[Resource] = JOBS
    resizable: Final = True

    def least_counts(self, job: Job) -> Mapping[str, int]:
        """See ResizableKind: a Job starts whole."""
        return {}

    def pod_sets(self, job: Job, *, topology: bool = True) -> tuple[PodSet, ...]:
        """See JobIntegration."""
        spec, meta = job.get("spec") or {}, job.get("metadata") or {}
        template = kept_template(spec.get("template") or {}, MANAGED_LABELS)
        fields: dict[str, Any] = {"name": MAIN, "template": template, "count": pods_of(spec)}
        if minimum := _min_parallelism(meta):
            fields["min_count"] = minimum
        if topology:
            fields["topology_request"] = topology_request(
                template["metadata"].get("annotations"),
                job_annotations=meta.get("annotations"),
                pod_index_label=names.JOB_COMPLETION_INDEX,
            )
        return (PodSet(**fields),)

    def is_suspended(self, job: Job) -> bool:
        """See JobIntegration."""
        return bool((job.get("spec") or {}).get("suspend"))

    def is_active(self, job: Job) -> bool:
        """See JobIntegration. A resumed Job counts as active until the Job controller reports Suspended=True again."""
        return _status(job, "active") > 0 or not _at_rest(job)

    def finished(self, job: Job) -> JobResult | None:
        """See JobIntegration. The API server takes the end of a Job only once its status counts no active pod."""
        for kind, success in (("Complete", True), ("Failed", False)):
            of_kind = condition_of(job, kind)
            if of_kind is not None and of_kind.get("status") == "True":
                return JobResult(of_kind.get("message") or "", success)
        return None

    def pods_ready(self, job: Job) -> bool:
        """See JobIntegration."""
        # An index that failed for good never has a ready pod again: to wait for one would evict the Job (recoveryTimeout).
        over = _completed(job) + _uncounted(job) + _failed(job)
        there = _status(job, "ready") + over
        return there >= pods_of(job.get("spec") or {})

    def reclaimable_pods(self, job: Job) -> tuple[ReclaimablePod, ...]:
        """Returns pods that are no longer needed: once fewer completions remain than pods may run, the difference.

        A Job without completions creates no pods after its first success: it needs those that still run.
        """
        spec = job.get("spec") or {}
        count, over = pods_of(spec), _completed(job) + _failed(job)
        if count == 1 or not over:
            return ()
        completions = spec.get("completions")
        needed = max(count - over, _status(job, "active")) if completions is None else int(completions) - over
        done = count - max(needed, 0)
        return (ReclaimablePod(name=MAIN, count=done),) if done > 0 else ()

    def overlooked_since(self, job: Job) -> float | None:
        """See Overlookable. Returns None for a Job of another controller (`managedBy`), about which nothing is known."""
        ours = (job.get("spec") or {}).get("managedBy") in (None, names.JOB_CONTROLLER)
        if not ours or self.is_suspended(job) or (job.get("status") or {}).get("startTime"):
            return None
        suspended = condition_of(job, "Suspended")
        return parse_time(suspended.get("lastTransitionTime")) or 0.0 if suspended else 0.0

    def start(self, job: Job, infos: Sequence[PodSetInfo]) -> Patch:
        """See JobIntegration."""
        info = infos_by_name(job, infos, (MAIN,))[MAIN]
        spec = job.get("spec") or {}
        changes: dict[str, Any] = {"suspend": False, "template": applied(spec.get("template") or {}, info)}
        if _min_parallelism(job.get("metadata") or {}):
            changes |= _scaled(job, info.count)
        return patch_between(job, with_spec(job, **changes)) or {}

    def stop(self, job: Job, original: Sequence[PodSet] | None) -> Patch | None:
        """See JobIntegration."""
        if not self.is_suspended(job):
            return patch_between(job, with_spec(job, suspend=True))
        if not original or not _restorable(job):
            return None
        before = original[0]
        template = restored((job.get("spec") or {}).get("template") or {}, before.template, MANAGED_LABELS)
        changes = {"template": template} | (_scaled(job, before.count) if before.min_count else {})
        return patch_between(job, with_spec(job, **changes))


def _at_rest(job: Job) -> bool:
    """Applies the API server's rule for changing a template, except for the part about active pods."""
    started = (job.get("status") or {}).get("startTime")
    return not started or has_condition(job, "Suspended")


def _restorable(job: Job) -> bool:
    """Reports whether the template may be changed: the Job never started, or is at rest without active pods."""
    never_started = not (job.get("status") or {}).get("startTime")
    return never_started or (_at_rest(job) and not _status(job, "active"))


def _status(job: Job, field: str) -> int:
    return int((job.get("status") or {}).get(field) or 0)


def _uncounted(job: Job) -> int:
    """Counts succeeded pods that the Job controller has not yet added to `succeeded`."""
    waiting = (job.get("status") or {}).get("uncountedTerminatedPods") or {}
    return len(waiting.get("succeeded") or ())


def _completed(job: Job) -> int:
    """Counts completions; of an Indexed job, whose completions may have been lowered since, those that are left."""
    status = job.get("status") or {}
    if (job.get("spec") or {}).get("completionMode") != "Indexed" or not status.get("completedIndexes"):
        return _status(job, "succeeded")
    return _indexes(job, status["completedIndexes"])


def _failed(job: Job) -> int:
    """Counts the indexes that failed for good (`backoffLimitPerIndex`) and still belong to the job."""
    return _indexes(job, (job.get("status") or {}).get("failedIndexes") or "")


def _indexes(job: Job, text: str) -> int:
    """Counts the indexes below the job's completions in a list such as `1,3-5`; 0 for a list that cannot be read."""
    completions = (job.get("spec") or {}).get("completions")
    total = 0
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        start, end = parse_int32(first), parse_int32(last or first)
        if start is None or end is None or end < start:
            return 0
        end = end if completions is None else min(end, int(completions) - 1)
        total += max(0, end - start + 1)
    return total


def _or(value: int | None, default: int) -> int:
    return default if value is None else int(value)


def _min_parallelism(meta: Mapping[str, Any]) -> int | None:
    """Returns the job's minimum parallelism, or None; a value that is not a number is ignored, as validation rejects it."""
    return parse_int32((meta.get("annotations") or {}).get(names.MIN_PARALLELISM, ""))


def _scaled(job: Job, count: int) -> dict[str, int]:
    """Returns the spec fields that set the number of pods."""
    annotations = (job.get("metadata") or {}).get("annotations") or {}
    equal = parse_bool(annotations.get(names.COMPLETIONS_EQUAL_PARALLELISM, ""))
    return {"parallelism": count, "completions": count} if equal else {"parallelism": count}
