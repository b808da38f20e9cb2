"""The interface of a kind of job (`JobIntegration`) and the helpers that its adapters share.

The job controller calls it. Jobs are plain dicts as decoded from JSON and are never changed in place. An adapter decides
nothing about admission: it reads a job's pod sets and state, and composes the patches that start and stop the job. Every patch
is a merge patch with the resourceVersion it was computed from, so the API server answers 409 if another client changed the job
meanwhile, and the job is reconciled again.

To add a kind that data cannot describe, write one module with a class of this protocol and one line in registry.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, runtime_checkable

from admission.integrations.podset import PodSetInfo
from api.errors import InvalidObject
from api.kube.resources import Resource
from api.merge import merge_diff
from api.workloads import PodSet, ReclaimablePod

Job = Mapping[str, Any]
Patch = dict[str, Any]


@dataclass(frozen=True, slots=True)
class JobResult:
    """The outcome of a finished job, with the message from its status."""

    message: str
    success: bool


class JobIntegration(Protocol):
    """The adapter of one kind of job. Every method is pure."""

    def __hash__(self) -> int:
        """Hashes by identity: each kind has exactly one adapter."""

    @property
    def framework(self) -> str:
        """The kind's name in settings and messages, such as `batch/job`."""

    @property
    def resource(self) -> Resource:
        """The API resource of the kind's objects."""

    def pod_sets(self, job: Job, *, topology: bool = True) -> tuple[PodSet, ...]:
        """Returns the job's pod sets, with topology requests only if `topology`. Raises InvalidObject for unreadable fields."""

    def is_suspended(self, job: Job) -> bool:
        """Reports whether the job's spec asks for no pods."""

    def is_active(self, job: Job) -> bool:
        """Reports whether, according to its status, pods of the job may still run or be created."""

    def finished(self, job: Job) -> JobResult | None:
        """Returns the job's outcome, or None while it has not finished or its status still counts pods that run.

        Quota is released with the outcome: some kinds leave pods running after their end (`cleanPodPolicy: None`).
        """

    def pods_ready(self, job: Job) -> bool:
        """Reports whether all pods of the job are ready or have succeeded."""

    def start(self, job: Job, infos: Sequence[PodSetInfo]) -> Patch:
        """Returns the one patch that unsuspends the job and merges the infos into its templates. Raises PodSetConflict."""

    def stop(self, job: Job, original: Sequence[PodSet] | None) -> Patch | None:
        """Returns the next patch toward a suspended job with its original templates, or None if no patch is possible now.

        The adapter knows which changes the API server allows in which state; the controller calls again whenever the job
        changes. Without `original` (the pod sets of the job's Workload) the templates stay as they are.
        """


@runtime_checkable
class JobWithReclaimablePods(Protocol):
    """A kind that reports pods which are done and no longer need their quota."""

    def reclaimable_pods(self, job: Job) -> tuple[ReclaimablePod, ...]:
        """Returns one entry for each pod set with reclaimable pods."""


@runtime_checkable
class JobWithChildren(Protocol):
    """A kind that creates child jobs of another kind and, when stopped, leaves some of its changes on them."""

    @property
    def children(self) -> str:
        """The framework name of the child jobs."""

    @property
    def children_label(self) -> str:
        """The label in which each child job names its parent."""

    def child_patch(self, job: Job, child: Job, infos: Sequence[PodSetInfo], flavor_labels: Set[str]) -> Patch | None:
        """Returns the patch that removes from a suspended child what an earlier start left and this start must not inherit.

        Returns None if nothing needs removing. `flavor_labels` are the node labels by which flavors select nodes.
        """


@runtime_checkable
class JobWithPriorityClass(Protocol):
    """A kind that may set the priority class outside its first pod template."""

    def priority_class(self, job: Job) -> str | None:
        """Returns the name of the job's PriorityClass, or None."""


@runtime_checkable
class Overlookable(Protocol):
    """A kind whose own controller may ignore a job that was created again under the name of an earlier job."""

    def overlooked_since(self, job: Job) -> float | None:
        """Returns when the job's own controller last reported the job suspended, in epoch seconds, or 0 if it never did.

        Returns None for a job that is suspended or has started.
        """


@runtime_checkable
class SelectiveJob(Protocol):
    """A kind with objects that are not managed, that can temporarily have no pods, or whose pods another object defines."""

    def is_skipped(self, job: Job) -> bool:
        """Reports whether the job has no pods of its own and is therefore not managed, although it names a queue."""

    def is_on_hold(self, job: Job) -> bool:
        """Reports whether the job cannot have pods in its present state."""

    def reference(self, job: Job) -> tuple[Resource, str] | None:
        """Returns resource and key of the object that defines the job's pods, or None if the job itself does."""


# isinstance() on a runtime-checkable protocol is slow, and an adapter's abilities never change, so each answer is cached.


@cache
def as_reclaiming(kind: JobIntegration) -> JobWithReclaimablePods | None:
    """Returns the adapter if it reports reclaimable pods, else None."""
    return kind if isinstance(kind, JobWithReclaimablePods) else None


@cache
def as_parent(kind: JobIntegration) -> JobWithChildren | None:
    """Returns the adapter if its jobs have child jobs, else None."""
    return kind if isinstance(kind, JobWithChildren) else None


@cache
def as_prioritized(kind: JobIntegration) -> JobWithPriorityClass | None:
    """Returns the adapter if it names the priority class itself, else None."""
    return kind if isinstance(kind, JobWithPriorityClass) else None


@cache
def as_selective(kind: JobIntegration) -> SelectiveJob | None:
    """Returns the adapter if it implements SelectiveJob, else None."""
    return kind if isinstance(kind, SelectiveJob) else None


@cache
def as_overlookable(kind: JobIntegration) -> Overlookable | None:
    """Returns the adapter if its jobs may be overlooked by their own controller, else None."""
    return kind if isinstance(kind, Overlookable) else None


def condition(job: Job, kind: str) -> Mapping[str, Any] | None:
    """Returns the job's status condition of type `kind`, or None."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return next((c for c in conditions if c.get("type") == kind), None)


def has_condition(job: Job, kind: str, status: str = "True") -> bool:
    """Reports whether the job has a condition of type `kind` with that status."""
    of_kind = condition(job, kind)
    return of_kind is not None and of_kind.get("status") == status


def infos_by_name(job: Job, infos: Sequence[PodSetInfo], expected: Sequence[str]) -> dict[str, PodSetInfo]:
    """Returns the infos keyed by pod set name. Raises InvalidObject unless they cover exactly the `expected` pod sets."""
    by_name = {info.name: info for info in infos}
    if set(by_name) != set(expected):
        name = (job.get("metadata") or {}).get("name", "")
        raise InvalidObject("admission.podSetAssignments", sorted(by_name), f"must be {sorted(expected)}", name)
    return by_name


def patch_between(job: Job, changed: Job) -> Patch | None:
    """Returns the merge patch from `job` to `changed`, guarded by the resourceVersion of `job`, or None if they are equal."""
    body = merge_diff(job, changed)
    if not body:
        return None
    version = (job.get("metadata") or {}).get("resourceVersion")
    if version:
        body["metadata"] = {**body.get("metadata", {}), "resourceVersion": version}
    return body


def with_spec(job: Job, **changes: Any) -> dict[str, Any]:
    """Returns a copy of the job with fields of its spec replaced; a field set to None is removed."""
    spec = {**(job.get("spec") or {}), **changes}
    return {**job, "spec": {key: value for key, value in spec.items() if value is not None or key not in changes}}
