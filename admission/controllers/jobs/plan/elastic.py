"""Which jobs are elastic (annotation `elastic-job`), and what such a job asks for first. Pure; job_slices.py resizes them."""

from __future__ import annotations

from admission.controllers.jobs.context import JobOptions
from admission.integrations.base import Job, JobIntegration
from admission.integrations.elastic import as_elastic, asks_for_elastic
from api import names
from api.workloads import PodSet


def is_elastic(job: Job, kind: JobIntegration, options: JobOptions) -> bool:
    """Reports whether the job may be resized while it runs: job, kind and feature gate must all allow it."""
    return options.resizes and asks_for_elastic(job) and as_elastic(kind) is not None


def pod_sets_of(job: Job, kind: JobIntegration, options: JobOptions) -> tuple[PodSet, ...]:
    """Returns the job's pod sets; the annotation `elastic-job` is ignored without the feature gate. Raises InvalidObject."""
    if not options.resizes and asks_for_elastic(job):
        meta = job["metadata"]
        kept = {key: text for key, text in meta["annotations"].items() if key != names.ELASTIC_JOB}
        job = {**job, "metadata": {**meta, "annotations": kept}}
    return kind.pod_sets(job, topology=options.topology)


def first_request(
    job: Job, kind: JobIntegration, pod_sets: tuple[PodSet, ...], options: JobOptions
) -> tuple[PodSet, ...]:
    """Returns what a job without quota asks for.

    In a Workload, only one pod set may start with fewer pods. If an elastic job has several such pod sets, this is the first;
    the others request their minimum, and the next slice requests the rest.
    """
    elastic = as_elastic(kind)
    if elastic is None or not is_elastic(job, kind, options):
        return pod_sets
    leasts = elastic.least_counts(job)
    return tuple(
        p if p.min_count is not None else p.model_copy(update={"count": min(p.count, leasts.get(p.name, p.count))})
        for p in pod_sets
    )


def marked(job: Job, kind: JobIntegration, options: JobOptions) -> dict[str, str]:
    """Returns the annotations that an elastic job's Workloads have."""
    return {names.ELASTIC_JOB: "true"} if is_elastic(job, kind, options) else {}
