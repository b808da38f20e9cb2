"""Finds the managed ancestor whose admission a job depends on, and the child jobs of a job.

Ancestors are read from the informers. Child jobs have no queue name, so no informer holds them: they are listed from the API
server, and only when their parent is about to start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from admission.controllers.jobs.context import JobContext, JobOptions
from admission.controllers.jobs.plan.workload import is_managed
from admission.controllers.watch.caches import BY_JOB, InformerView, job_key, job_owner, owner_uid
from admission.integrations.base import Job, JobIntegration, JobWithChildren, as_parent
from admission.integrations.children import fault_of_part
from api import names
from api.kube.client import Kube
from api.kube.resources import Resource
from api.meta import OwnerReference, is_true, object_key
from api.workloads import Workload

DEEPEST: Final = 8
"""The maximum number of ancestors to follow, since owner references may form a cycle."""


class JobAncestors:
    """Looks up the ancestors of jobs; `adapters` and `jobs` are keyed by framework."""

    def __init__(
        self,
        adapters: Mapping[str, JobIntegration],
        jobs: Mapping[str, InformerView[dict[str, Any]]],
        workloads: InformerView[Workload],
        options: JobOptions,
    ) -> None:
        self._adapters, self._jobs, self._workloads = adapters, jobs, workloads
        self._options = options

    def ancestor_admitted(self, job: Job, adapter: JobIntegration, depth: int = 0) -> bool | None:
        """Reports whether the topmost managed ancestor of the job is admitted; None if the job has no managed ancestor."""
        owner = job_owner(job)
        framework = self._framework(owner) if owner else None
        if owner is None or framework is None or depth == DEEPEST:
            return None
        key, kind = object_key((job.get("metadata") or {}).get("namespace"), owner.name), self._adapters[framework]
        parent = self._jobs[framework].objects.get(key)
        if parent is None or parent["metadata"].get("uid", "") != owner.uid:
            return None
        if fault_of_part(job, adapter, parent, kind):
            return None  # any user can name any owner
        above = self.ancestor_admitted(parent, kind, depth + 1)
        if above is not None or not is_managed(parent, JobContext(options=self._options)):
            return above
        owned = self._workloads.by_index(BY_JOB, job_key(framework, key))
        return any(_may_run(w) for w in owned if owner_uid(w) == owner.uid)

    def _framework(self, owner: OwnerReference) -> str | None:
        """Returns the framework of the owner's kind if Stowage manages that API version. Adapters come and go with JobKinds."""
        name = f"{owner.api_version.rpartition('/')[0]}/{owner.kind.lower()}"
        adapter = self._adapters.get(name)
        same = adapter is not None and (adapter.resource.api_version, adapter.resource.kind) == (
            owner.api_version,
            owner.kind,
        )
        return name if same else None


def about_to_start(job: Job, kind: JobIntegration, workloads: Sequence[Workload]) -> bool:
    """Reports whether the job may start next, which is when its children's leftovers from an earlier start matter."""
    if as_parent(kind) is None or not kind.is_suspended(job):
        return False
    return any(_may_run(workload) for workload in workloads)


def _may_run(workload: Workload) -> bool:
    """Reports whether the job is admitted and need not stop. An evicted one stays admitted while its pods run: its parts stop
    first."""
    state = workload.status.conditions
    return is_true(state, names.ADMITTED) and not is_true(state, names.EVICTED)


async def children_of(kube: Kube, job: Job, kind: JobWithChildren, resource: Resource) -> list[dict[str, Any]]:
    """Lists the job's child jobs of that resource from the API server. Raises ApiErrors."""
    meta = job["metadata"]
    page = await kube.list(resource, meta.get("namespace"), label_selector=f"{kind.children_label}={meta['name']}")
    mine = meta.get("uid", "")
    return [child for child in page.items if (owner := job_owner(child)) is not None and owner.uid == mine]
