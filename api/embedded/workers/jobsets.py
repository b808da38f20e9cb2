"""Stand-in for the JobSet controller: child Jobs, suspend and resume, restarts, Completed and Failed.

As JobSet 0.12: child Jobs exist while the JobSet is suspended, with the template of their creation; a resume merges the five
mutable fields into them and removes nothing. Every failure counts as a restart of all.

Not supported: startup order and dependsOn, failure policy rules, the headless Service, TTL, volume claims.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from api.embedded.patch import clone
from api.embedded.status import Obj
from api.embedded.store import DeleteOptions, ObjectStorage
from api.embedded.table import StoreEvent
from api.embedded.workers import children
from api.embedded.workers.base import Dependents, Worker, controller_of, holds, set_condition
from api.kube.resources import JOBS, JOBSETS, Resource

MANAGER = "jobset.sigs.k8s.io/jobset-controller"
_FOREGROUND = DeleteOptions("Foreground")


class JobSetWorker(Worker):
    """Reconciles JobSets that the JobSet controller manages."""

    kinds: ClassVar[tuple[Resource, ...]] = (JOBSETS, JOBS)

    def __init__(self, store: ObjectStorage) -> None:
        super().__init__(store)
        self._jobs = Dependents("JobSet")

    def seen(self, kind: Resource, event: StoreEvent) -> None:
        if kind is JOBSETS:
            self.look_at(event.record.key)
        elif owner := self._jobs.note(event):
            self.look_at(owner)

    def sync(self, key: str) -> None:
        jobset = self.at(JOBSETS, key)
        if jobset is None or "deletionTimestamp" in jobset["metadata"]:
            return
        if jobset["spec"].get("managedBy", MANAGER) != MANAGER:
            return
        status = clone(jobset.get("status") or {})
        self._sync(jobset, status, self._children(jobset, key))
        if status != (jobset.get("status") or {}):
            meta = jobset["metadata"]
            self.store.patch(JOBSETS, meta["name"], {"status": status}, meta["namespace"], subresource="status")

    def _children(self, jobset: Obj, key: str) -> list[Obj]:
        uid = jobset["metadata"]["uid"]
        jobs = [job for name in self._jobs.of(key) if (job := self.at(JOBS, name))]
        return [job for job in jobs if (controller_of(job) or {}).get("uid") == uid]

    def _sync(self, jobset: Obj, status: Obj, jobs: list[Obj]) -> None:
        restarts = status.setdefault("restarts", 0)
        current = [job for job in jobs if children.restart_of(job) == restarts]
        status["replicatedJobsStatus"] = children.summary(jobset, current)
        if "terminalState" not in status:
            self._conclude(jobset, status, current)
        if "terminalState" in status:
            self._delete(job for job in current if not children.is_finished(job))
            return
        self._delete(job for job in jobs if children.restart_of(job) < status["restarts"])
        if status["restarts"] == restarts:
            self._start(jobset, status, jobs, current)

    def _conclude(self, jobset: Obj, status: Obj, jobs: list[Obj]) -> None:
        """Ends the JobSet, or counts a restart."""
        failed = next((job for job in jobs if children.has_failed(job)), None)
        if failed is not None:
            most = (jobset["spec"].get("failurePolicy") or {}).get("maxRestarts", 0)
            if status["restarts"] < most:
                status["restarts"] += 1
            else:
                self._end(status, "Failed", *children.failure(jobset, failed))
        elif children.is_complete(jobset, jobs):
            self._end(status, "Completed", "AllJobsCompleted", "jobset completed successfully")

    def _end(self, status: Obj, kind: str, reason: str, message: str) -> None:
        set_condition(status, kind, "True", reason, message, self.store.now())
        status["terminalState"] = kind

    def _start(self, jobset: Obj, status: Obj, jobs: list[Obj], current: list[Obj]) -> None:
        """Creates missing child Jobs, and suspends or resumes existing ones."""
        taken = {job["metadata"]["name"] for job in jobs}  # an old Job must be removed before its successor is created
        for job in children.wanted(jobset, status["restarts"]):
            if job["metadata"]["name"] not in taken:
                self.store.create(JOBS, job)
        suspend = bool(jobset["spec"].get("suspend"))
        for job in current:
            if bool(job["spec"].get("suspend")) != suspend and not holds(job.get("status", {}), "Complete", "Failed"):
                self._suspend(job) if suspend else self._resume(jobset, job)
        now = self.store.now()
        if suspend:
            set_condition(status, "Suspended", "True", "SuspendedJobs", "jobset is suspended", now)
        else:
            set_condition(status, "Suspended", "False", "ResumeJobs", "jobset is resumed", now)

    def _suspend(self, job: Obj) -> None:
        meta = job["metadata"]
        self.store.patch(JOBS, meta["name"], {"spec": {"suspend": True}}, meta["namespace"])

    def _resume(self, jobset: Obj, job: Obj) -> None:
        meta = job["metadata"]
        body = {"spec": {"suspend": False, "template": children.merged(jobset, job)}}
        self.store.patch(JOBS, meta["name"], body, meta["namespace"])

    def _delete(self, jobs: Iterable[Obj]) -> None:
        for job in list(jobs):
            meta = job["metadata"]
            if "deletionTimestamp" not in meta:
                self.store.delete(JOBS, meta["name"], meta["namespace"], options=_FOREGROUND)
