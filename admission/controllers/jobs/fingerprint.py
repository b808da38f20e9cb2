"""What a plan depends on, so that an unchanged job is not planned again. Called by job_controller.py."""

from __future__ import annotations

from collections.abc import Sequence

from admission.controllers.jobs.context import JobContext
from admission.controllers.jobs.plan.pods_ready import is_readiness_kept
from admission.controllers.jobs.plan.workload import prebuilt_key
from admission.integrations.base import Job, JobIntegration, as_reclaiming, as_selective
from api.workloads import Workload


def fingerprint_of(
    job: Job, adapter: JobIntegration, workloads: Sequence[Workload], context: JobContext
) -> tuple[object, ...]:
    """Returns everything that a plan depends on: equal values yield equal plans."""
    meta, options = job["metadata"], context.options
    reclaiming = as_reclaiming(adapter) if options.reclaimable_pods else None
    prebuilt = context.workloads.get(prebuilt_key(job) or "")
    selective = as_selective(adapter)
    known = (*workloads, prebuilt) if prebuilt else workloads
    return (
        meta.get("uid"),
        job.get("spec"),
        meta.get("labels"),
        meta.get("annotations"),
        meta.get("deletionTimestamp"),
        adapter.finished(job),
        adapter.is_active(job),
        selective is not None and (selective.is_skipped(job), selective.is_on_hold(job)),
        any(is_readiness_kept(w.status, options) for w in known) and adapter.pods_ready(job),
        reclaiming.reclaimable_pods(job) if reclaiming and (workloads or prebuilt) else None,
        context.ancestor_admitted,
        options.namespace_managed(meta.get("namespace") or ""),
        tuple((w.metadata.uid, w.metadata.resource_version) for w in workloads),
        prebuilt.metadata.resource_version if prebuilt else None,
    )
