"""batch/v1 Job: one pod set `main` of min(parallelism, completions) pods.

What the API server allows (1.36): while a Job is suspended, has no active pods and either never started or carries
Suspended=True, labels, annotations, nodeSelector, tolerations and scheduling gates of its template may change, also in
the update that unsuspends it; at no other time. So a start is one patch, and a stop is two: suspend, and when the Job
controller has confirmed it, the template as it was. Partial admission lowers parallelism at the start, with
completions where the job asks for their equality, and the stop puts both back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from admission.integrations.base import Job, JobResult, Patch, has_condition, infos_by_name, patch_between, with_spec
from admission.integrations.base import condition as condition_of
from admission.integrations.podset import PodSetInfo, applied, kept_template, restored
from api import names
from api.kube.resources import JOBS, Resource
from api.meta import parse_time
from api.requests import parse_bool, parse_int32, topology_request
from api.workloads import PodSet, ReclaimablePod

MAIN: Final = "main"

# The API server writes them into the template of a Job, and the Job's selector needs them there.
MANAGED_LABELS: Final = frozenset(
    ("controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name")
)


def pods_of(spec: Mapping[str, Any]) -> int:
    """How many pods a JobSpec runs at once at most."""
    parallelism, completions = _or(spec.get("parallelism"), 1), spec.get("completions")
    return parallelism if completions is None else min(parallelism, int(completions))


class BatchJob:
    """The adapter of batch/v1 Job."""

    framework: Final = "batch/job"
    resource: Final[Resource] = JOBS
    elastic: Final = True

    def pod_sets(self, job: Job, *, topology: bool = True) -> tuple[PodSet, ...]:
        """See JobKind."""
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
        """See JobKind."""
        return bool((job.get("spec") or {}).get("suspend"))

    def is_active(self, job: Job) -> bool:
        """See JobKind. A Job that was resumed is active until the Job controller has said Suspended=True again."""
        return _status(job, "active") > 0 or not _at_rest(job)

    def finished(self, job: Job) -> JobResult | None:
        """See JobKind."""
        for kind, success in (("Complete", True), ("Failed", False)):
            found = condition_of(job, kind)
            if found is not None and found.get("status") == "True":
                return JobResult(found.get("message") or "", success)
        return None

    def pods_ready(self, job: Job) -> bool:
        """See JobKind."""
        there = _status(job, "ready") + _status(job, "succeeded") + _uncounted(job)
        return there >= pods_of(job.get("spec") or {})

    def reclaimable_pods(self, job: Job) -> tuple[ReclaimablePod, ...]:
        """Pods that will not be needed again: those of the last round that have succeeded, or whose index has failed."""
        spec = job.get("spec") or {}
        parallelism, over = _or(spec.get("parallelism"), 1), _status(job, "succeeded") + _failed_indexes(job)
        if parallelism == 1 or not over:
            return ()
        remaining = int(_or(spec.get("completions"), parallelism)) - over
        done = parallelism - max(remaining, 0)
        return (ReclaimablePod(name=MAIN, count=done),) if done > 0 else ()

    def overlooked_since(self, job: Job) -> float | None:
        """See Overlookable. The controller that starts a Job says when; of another controller's Job (`managedBy`) nothing
        is known."""
        ours = (job.get("spec") or {}).get("managedBy") in (None, names.JOB_CONTROLLER)
        if not ours or self.is_suspended(job) or (job.get("status") or {}).get("startTime"):
            return None
        suspended = condition_of(job, "Suspended")
        return parse_time(suspended.get("lastTransitionTime")) or 0.0 if suspended else 0.0

    def start(self, job: Job, infos: Sequence[PodSetInfo]) -> Patch:
        """See JobKind."""
        info = infos_by_name(job, infos, (MAIN,))[MAIN]
        spec = job.get("spec") or {}
        changes: dict[str, Any] = {"suspend": False, "template": applied(spec.get("template") or {}, info)}
        if _min_parallelism(job.get("metadata") or {}):
            changes |= _scaled(job, info.count)
        return patch_between(job, with_spec(job, **changes)) or {}

    def stop(self, job: Job, original: Sequence[PodSet] | None) -> Patch | None:
        """See JobKind."""
        if not self.is_suspended(job):
            return patch_between(job, with_spec(job, suspend=True))
        if not original or not _restorable(job):
            return None
        before = original[0]
        template = restored((job.get("spec") or {}).get("template") or {}, before.template, MANAGED_LABELS)
        changes = {"template": template} | (_scaled(job, before.count) if before.min_count else {})
        return patch_between(job, with_spec(job, **changes))


def _at_rest(job: Job) -> bool:
    """The API server's own rule for a template that may change, but for the active pods."""
    started = (job.get("status") or {}).get("startTime")
    return not started or has_condition(job, "Suspended")


def _restorable(job: Job) -> bool:
    """Whether its template may be changed: it is at rest without active pods, or was never started."""
    never_started = not (job.get("status") or {}).get("startTime")
    return never_started or (_at_rest(job) and not _status(job, "active"))


def _status(job: Job, field: str) -> int:
    return int((job.get("status") or {}).get(field) or 0)


def _uncounted(job: Job) -> int:
    """Pods that have succeeded, and that the Job controller has not added to `succeeded` yet."""
    waiting = (job.get("status") or {}).get("uncountedTerminatedPods") or {}
    return len(waiting.get("succeeded") or ())


def _failed_indexes(job: Job) -> int:
    """How many indexes have failed for good (`backoffLimitPerIndex`), of a list such as `1,3-5`."""
    text = (job.get("status") or {}).get("failedIndexes") or ""
    total = 0
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        start, end = parse_int32(first), parse_int32(last or first)
        if start is None or end is None or end < start:
            return 0
        total += end - start + 1
    return total


def _or(value: int | None, default: int) -> int:
    return default if value is None else int(value)


def _min_parallelism(meta: Mapping[str, Any]) -> int | None:
    """The least parallelism that the job accepts; what is no number asks for nothing (validation refuses it)."""
    return parse_int32((meta.get("annotations") or {}).get(names.MIN_PARALLELISM, ""))


def _scaled(job: Job, count: int) -> dict[str, int]:
    """The fields that set the number of pods."""
    annotations = (job.get("metadata") or {}).get("annotations") or {}
    equal = parse_bool(annotations.get(names.COMPLETIONS_EQUAL_PARALLELISM, ""))
    return {"parallelism": count, "completions": count} if equal else {"parallelism": count}
