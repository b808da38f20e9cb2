"""The adapter of jobset.x-k8s.io JobSet: a pod set per replicated job, of replicas x min(parallelism, completions) pods.

JobSet's webhook lets labels, annotations, nodeSelector, tolerations and scheduling gates of the pod templates change if the
JobSet is suspended before OR after the update, so a start and a stop are one patch each. On resume JobSet's controller merges
these fields into the child Jobs but removes nothing. Node labels of an earlier flavor, or a gate that the new assignment does
not need, would stay on the child Jobs and keep their pods from running; so a start first removes them from the suspended child
Jobs, which the API server allows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any, Final

from admission.integrations.base import (
    Job,
    JobResult,
    Patch,
    condition,
    has_condition,
    infos_by_name,
    patch_between,
    with_spec,
)
from admission.integrations.job import BatchJob, pods_of
from admission.integrations.podset import PodSetInfo, applied, kept_template, restored, without_leftovers
from admission.integrations.ranks import RankedPods, offsets
from api import names
from api.annotations.requests import topology_request
from api.kube.resources import JOBSETS, Resource
from api.workloads import PodSet, ReclaimablePod

Replicated = Mapping[str, Any]

_CHILD = BatchJob()


class JobSet:
    """The adapter of jobset.x-k8s.io/v1alpha2 JobSet; base.py documents the methods."""

    framework: Final = "jobset.x-k8s.io/jobset"
    children: Final = BatchJob.framework
    children_label: Final = names.JOBSET_NAME_LABEL
    resource: Final[Resource] = JOBSETS

    def pod_sets(self, job: Job, *, topology: bool = True) -> tuple[PodSet, ...]:
        """See JobIntegration."""
        annotations = (job.get("metadata") or {}).get("annotations")
        return tuple(_pod_set(replicated, annotations, topology) for replicated in _replicated_jobs(job))

    def is_suspended(self, job: Job) -> bool:
        """See JobIntegration."""
        return bool((job.get("spec") or {}).get("suspend"))

    def is_active(self, job: Job) -> bool:
        """See JobIntegration. A resumed JobSet counts as active until its controller reports Suspended=True again."""
        return has_condition(job, "Suspended", "False") or any(s.get("active") for s in _statuses(job))

    def finished(self, job: Job) -> JobResult | None:
        """See JobIntegration."""
        if any(s.get("active") for s in _statuses(job)):
            return None
        for kind, success in (("Completed", True), ("Failed", False)):
            if has_condition(job, kind):
                return JobResult((condition(job, kind) or {}).get("message") or "", success)
        return None

    def pods_ready(self, job: Job) -> bool:
        """See JobIntegration. JobSet's status counts child Jobs, not pods."""
        wanted = sum(_replicas(replicated) for replicated in _replicated_jobs(job))
        return wanted <= sum(int(s.get("ready") or 0) + int(s.get("succeeded") or 0) for s in _statuses(job))

    def reclaimable_pods(self, job: Job) -> tuple[ReclaimablePod, ...]:
        """Returns the pods of child Jobs that have succeeded."""
        done = {s.get("name"): int(s.get("succeeded") or 0) for s in _statuses(job)}
        counts = ((r, min(done.get(r.get("name"), 0), _replicas(r)) * _pods_each(r)) for r in _replicated_jobs(job))
        return tuple(ReclaimablePod(name=_pod_set_name(r), count=count) for r, count in counts if count)

    def start(self, job: Job, infos: Sequence[PodSetInfo]) -> Patch:
        """See JobIntegration."""
        replicated = _replicated_jobs(job)
        by_name = infos_by_name(job, infos, [_pod_set_name(r) for r in replicated])
        pods = [RankedPods(n := _pod_set_name(r), by_name[n].count, _template(r)) for r in replicated]
        ranks = offsets(pods)
        added = {name: info.merged(annotations=ranks[name]) for name, info in by_name.items()}
        changed = [_with_template(r, applied(_template(r), added[_pod_set_name(r)])) for r in replicated]
        return patch_between(job, with_spec(job, suspend=False, replicatedJobs=changed)) or {}

    def stop(self, job: Job, original: Sequence[PodSet] | None) -> Patch | None:
        """See JobIntegration."""
        changes: dict[str, Any] = {"suspend": True}
        if original:
            before = {pod_set.name: pod_set.template for pod_set in original}
            changes["replicatedJobs"] = [_restored(r, before.get(_pod_set_name(r))) for r in _replicated_jobs(job)]
        return patch_between(job, with_spec(job, **changes))

    def child_patch(self, job: Job, child: Job, infos: Sequence[PodSetInfo], flavor_labels: Set[str]) -> Patch | None:
        """See JobWithChildren."""
        if not _CHILD.is_suspended(child) or _CHILD.is_active(child) or _CHILD.finished(child):
            return None
        of = ((child.get("metadata") or {}).get("labels") or {}).get(names.JOBSET_REPLICATED_JOB)
        replicated = next((r for r in _replicated_jobs(job) if r.get("name") == of), None)
        info = next((i for i in infos if replicated and i.name == _pod_set_name(replicated)), None)
        if replicated is None or info is None:
            return None
        wanted = applied(_template(replicated), info)["spec"]
        template = (child.get("spec") or {}).get("template") or {}
        cleaned = without_leftovers(template, wanted, flavor_labels)
        return patch_between(child, with_spec(child, template=cleaned))


def _pod_set(replicated: Replicated, annotations: Mapping[str, str] | None, topology: bool) -> PodSet:
    template = kept_template(_template(replicated))
    count = _replicas(replicated) * _pods_each(replicated)
    fields: dict[str, Any] = {"name": _pod_set_name(replicated), "template": template, "count": count}
    if topology:
        fields["topology_request"] = topology_request(
            template["metadata"].get("annotations"),
            job_annotations=annotations,
            pod_index_label=names.JOB_COMPLETION_INDEX,
            sub_group_index_label=names.JOBSET_JOB_INDEX,
            sub_group_count=_replicas(replicated),
        )
    return PodSet(**fields)


def _restored(replicated: Replicated, original: Mapping[str, Any] | None) -> Replicated:
    if original is None:
        return replicated
    return _with_template(replicated, restored(_template(replicated), original))


def _replicated_jobs(job: Job) -> Sequence[Replicated]:
    return (job.get("spec") or {}).get("replicatedJobs") or ()


def _statuses(job: Job) -> Sequence[Mapping[str, Any]]:
    return (job.get("status") or {}).get("replicatedJobsStatus") or ()


def _pod_set_name(replicated: Replicated) -> str:
    return str(replicated.get("name", "")).lower()


def _replicas(replicated: Replicated) -> int:
    replicas = replicated.get("replicas")
    return 1 if replicas is None else int(replicas)


def _job_spec(replicated: Replicated) -> Mapping[str, Any]:
    return (replicated.get("template") or {}).get("spec") or {}


def _pods_each(replicated: Replicated) -> int:
    return pods_of(_job_spec(replicated))


def _template(replicated: Replicated) -> Mapping[str, Any]:
    return _job_spec(replicated).get("template") or {}


def _with_template(replicated: Replicated, template: Mapping[str, Any]) -> dict[str, Any]:
    job_template = replicated.get("template") or {}
    return {**replicated, "template": {**job_template, "spec": {**_job_spec(replicated), "template": template}}}
