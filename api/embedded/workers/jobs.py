"""Stand-in for the Job controller: pods from the template, suspend and resume, counting, Complete and Failed.

As in Kubernetes 1.36 with default gates: pods have the tracking finalizer until counted; suspending a Job deletes its active
pods, removes startTime and sets Suspended=True in one update; resuming restarts it; an ending Job gets SuccessCriteriaMet or
FailureTarget first, and Complete or Failed when its last pod is gone.

Not supported: pod failure and success policies, backoffLimitPerIndex, deadlines, TTL, the index as an environment variable.
"""

from __future__ import annotations

from typing import ClassVar

from api.embedded.patch import clone
from api.embedded.status import Obj
from api.embedded.store import ObjectStorage
from api.embedded.table import StoreEvent
from api.embedded.workers import indexes, jobpods
from api.embedded.workers.base import Dependents, Worker, controller_of, holds, set_condition
from api.kube.resources import JOBS, PODS, Resource
from api.names import JOB_TRACKING_FINALIZER

MANAGER = "kubernetes.io/job-controller"
_LAST_DELAY = 600.0
_SUCCESS = ("CompletionsReached", "Reached expected number of succeeded pods")
_FAILURE = ("BackoffLimitExceeded", "Job has reached the specified backoff limit")


class JobWorker(Worker):
    """Reconciles Jobs that the Job controller manages. Replaces a failed pod after `first_delay` seconds, then twice that."""

    first_delay: ClassVar[float] = 10.0
    kinds: ClassVar[tuple[Resource, ...]] = (JOBS, PODS)

    def __init__(self, store: ObjectStorage) -> None:
        super().__init__(store)
        self._pods = Dependents("Job")
        self._released: dict[str, list[str]] = {}  # pods without a controller, by the Job that controlled them
        self._not_before: dict[str, float] = {}  # uid: end of the backoff after failures

    def seen(self, kind: Resource, event: StoreEvent) -> None:
        if kind is JOBS:
            self.look_at(event.record.key)
        elif owner := self._pods.note(event):
            if controller_of(event.record.obj) is None and event.type != "DELETED":
                self._released.setdefault(owner, []).append(event.record.key)
            self.look_at(owner)

    def sync(self, key: str) -> None:
        job = self.at(JOBS, key)
        uid = job["metadata"]["uid"] if job else None
        pods = [pod for name in self._pods.of(key) if (pod := self.at(PODS, name))]
        orphans = [pod for pod in pods if (controller_of(pod) or {}).get("uid") != uid]
        released = [pod for name in self._released.pop(key, ()) if (pod := self.at(PODS, name))]
        for pod in (*orphans, *(pod for pod in released if controller_of(pod) is None)):
            self._release(pod)
        if job is None:
            return
        if job["spec"].get("managedBy", MANAGER) == MANAGER:
            self._sync(key, job, [pod for pod in pods if pod not in orphans])

    def _sync(self, key: str, job: Obj, pods: list[Obj]) -> None:
        status = clone(job.get("status") or {})
        counted = self._count(job, status, pods)
        if not holds(status, "Complete", "Failed") and "deletionTimestamp" not in job["metadata"]:
            pods = self._advance(key, job, status, pods)
        _tally(status, pods)
        if status != (job.get("status") or {}):
            meta = job["metadata"]
            self.store.update(JOBS, {**job, "metadata": _unversioned(meta), "status": status}, subresource="status")
        for pod in counted:
            self._release(pod)

    def _count(self, job: Obj, status: Obj, pods: list[Obj]) -> list[Obj]:
        """Adds ended pods to the status, each once. Returns pods that may lose the finalizer."""
        over = holds(status, "Complete", "Failed") or "deletionTimestamp" in job["metadata"]
        ended = [pod for pod in pods if jobpods.is_tracked(pod) and (over or jobpods.has_ended(job, pod))]
        succeeded = [pod for pod in ended if jobpods.phase(pod) == "Succeeded"]
        failed = [pod for pod in ended if jobpods.has_failed(job, pod)]
        if jobpods.is_indexed(job):
            done = indexes.parse(status.get("completedIndexes"))
            done |= {index for pod in succeeded if (index := jobpods.index_of(pod)) < job["spec"]["completions"]}
            _set(status, "completedIndexes", indexes.text(done))
            _set(status, "succeeded", len(done))
        else:
            _set(status, "succeeded", status.get("succeeded", 0) + len(succeeded))
        if failed:
            status["failed"] = status.get("failed", 0) + len(failed)
            delay = min(self.first_delay * 2 ** (status["failed"] - 1), _LAST_DELAY)
            self._not_before[job["metadata"]["uid"]] = self.store.clock() + delay
        return ended

    def _advance(self, key: str, job: Obj, status: Obj, pods: list[Obj]) -> list[Obj]:
        """Reconciles a Job that has not ended. Returns its pods afterwards."""
        if status.get("failed", 0) > job["spec"]["backoffLimit"] or holds(status, "FailureTarget"):
            return self._end(status, pods, "FailureTarget", "Failed", _FAILURE)
        if _is_complete(job, status, pods):
            return self._end(status, pods, "SuccessCriteriaMet", "Complete", _SUCCESS)
        if job["spec"].get("suspend"):
            return self._suspend(status, pods)
        self._resume(status)
        return self._scale(key, job, status, pods)

    def _end(self, status: Obj, pods: list[Obj], target: str, final: str, why: tuple[str, str]) -> list[Obj]:
        now = self.store.now()
        set_condition(status, target, "True", *why, now)
        left = self._remove(pods, [pod for pod in pods if jobpods.is_active(pod)])
        if not any(jobpods.is_unfinished(pod) for pod in left):
            set_condition(status, final, "True", *why, now)
            if final == "Complete":
                status["completionTime"] = now
        return left

    def _suspend(self, status: Obj, pods: list[Obj]) -> list[Obj]:
        left = self._remove(pods, [pod for pod in pods if jobpods.is_active(pod)])
        set_condition(status, "Suspended", "True", "JobSuspended", "Job suspended", self.store.now())
        status.pop("startTime", None)
        return left

    def _resume(self, status: Obj) -> None:
        resumed = set_condition(status, "Suspended", "False", "JobResumed", "Job resumed", self.store.now())
        if resumed or "startTime" not in status:
            status["startTime"] = self.store.now()

    def _scale(self, key: str, job: Obj, status: Obj, pods: list[Obj]) -> list[Obj]:
        active = [pod for pod in pods if jobpods.is_active(pod)]
        surplus = jobpods.surplus(job, status, active)
        if surplus:
            return self._remove(pods, surplus)
        missing = jobpods.missing(job, status, pods)
        later = self._not_before.get(job["metadata"]["uid"], 0.0)
        if missing and later > self.store.clock():
            self.look_later(key, later)
            return pods
        return [*pods, *(self.store.create(PODS, jobpods.new_pod(job, index)) for index in missing)]

    def _remove(self, pods: list[Obj], unwanted: list[Obj]) -> list[Obj]:
        """Deletes pods without counting them. Returns the remaining pods, including terminating ones."""
        for pod in unwanted:
            self._release(pod)
            self.store.delete(PODS, pod["metadata"]["name"], pod["metadata"]["namespace"])
        return [now for pod in pods if (now := self.at(PODS, _key(pod)))]

    def _release(self, pod: Obj) -> None:
        """Removes the tracking finalizer of a pod, if the pod still exists."""
        now = self.at(PODS, _key(pod))
        if now is not None and jobpods.is_tracked(now):
            left = [item for item in now["metadata"]["finalizers"] if item != JOB_TRACKING_FINALIZER]
            body = {"metadata": {"finalizers": left or None}}
            self.store.patch(PODS, pod["metadata"]["name"], body, pod["metadata"]["namespace"])


def _key(pod: Obj) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _unversioned(meta: Obj) -> Obj:
    return {name: value for name, value in meta.items() if name != "resourceVersion"}


def _set(status: Obj, name: str, value: object) -> None:
    """Sets a field of the status; removes it if zero or empty."""
    if value:
        status[name] = value
    else:
        status.pop(name, None)


def _tally(status: Obj, pods: list[Obj]) -> None:
    active = [pod for pod in pods if jobpods.is_active(pod)]
    _set(status, "active", len(active))
    status["ready"] = sum(jobpods.is_ready(pod) for pod in active)
    status["terminating"] = sum(jobpods.is_terminating(pod) for pod in pods)
    status["uncountedTerminatedPods"] = {}


def _is_complete(job: Obj, status: Obj, pods: list[Obj]) -> bool:
    completions, succeeded = job["spec"].get("completions"), status.get("succeeded", 0)
    if completions is None:  # a work queue: one success means the queue is empty
        return succeeded > 0 and not any(jobpods.is_active(pod) for pod in pods)
    return bool(succeeded >= completions)
