"""Jobs above and below a job: whose admission it runs on, and which child jobs it has. Reads the informers' copies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from admission.controllers.jobs.surroundings import JobOptions, Surroundings
from admission.controllers.jobs.views import BY_JOB, BY_PARENT, Latest, View, job_key, job_owner, key_of, owner_uid
from admission.controllers.jobs.workload import is_managed
from admission.integrations.base import Job, JobKind, Parent
from api import names
from api.meta import is_true, object_key
from api.workloads import Workload


class Family:
    """See the module. `frameworks` by (apiVersion, kind); `jobs` by framework."""

    def __init__(
        self,
        frameworks: Mapping[tuple[str, str], str],
        jobs: Mapping[str, View[dict[str, Any]]],
        workloads: View[Workload],
        latest: Latest[dict[str, Any]],
        options: JobOptions,
    ) -> None:
        self._frameworks, self._jobs, self._workloads = frameworks, jobs, workloads
        self._latest, self._options = latest, options

    def children(self, job: Job, kind: JobKind) -> list[dict[str, Any]]:
        """The child jobs of a kind that has them, while it is suspended: what they carry is of an earlier start."""
        if not isinstance(kind, Parent) or kind.children not in self._jobs or not kind.is_suspended(job):
            return []
        found = self._jobs[kind.children].by_index(BY_PARENT, job["metadata"].get("uid", ""))
        return [self._latest.of(job_key(kind.children, key_of(child)), child) for child in found]

    def ancestor_admitted(self, job: Job) -> bool | None:
        """Whether the managed job above this one is admitted; None where there is none."""
        owner = job_owner(job)
        framework = self._frameworks.get((owner.api_version, owner.kind)) if owner else None
        if owner is None or framework is None:
            return None
        key = object_key((job.get("metadata") or {}).get("namespace"), owner.name)
        parent = self._jobs[framework].objects.get(key)
        if parent is None or parent["metadata"].get("uid", "") != owner.uid:
            return None
        above = self.ancestor_admitted(parent)
        if above is not None or not is_managed(parent, Surroundings(options=self._options)):
            return above
        owned = self._workloads.by_index(BY_JOB, job_key(framework, key))
        return any(is_true(w.status.conditions, names.ADMITTED) for w in owned if owner_uid(w) == owner.uid)


def parent_uids(job: Job) -> Iterable[str]:
    """The index of jobs by their controller."""
    owner = job_owner(job)
    return (owner.uid,) if owner else ()
