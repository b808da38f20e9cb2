"""What the job controller asks of a kind of job, and what the adapters share.

Jobs are plain dicts as decoded from JSON, never changed in place. An adapter decides nothing about admission: it reads
the job's shape and state, and words the patches that start and stop it. Patches are merge patches that carry the
resourceVersion they were made from, so that the write gets 409 if another client changed the job meanwhile, and the job is
planned again. To add a kind: one module with a class of this protocol, one line in registry.py; the adapter contract tests it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, runtime_checkable

from admission.integrations.podset import PodSetInfo
from api import names
from api.errors import InvalidObject
from api.kube.resources import Resource
from api.merge import merge_diff
from api.workloads import PodSet, ReclaimablePod

Job = Mapping[str, Any]
Patch = dict[str, Any]


@dataclass(frozen=True, slots=True)
class JobResult:
    """How a job ended, in its own words."""

    message: str
    success: bool


class JobIntegration(Protocol):
    """One kind of job. Every method is pure."""

    def __hash__(self) -> int:
        """By identity: there is one adapter of each kind."""

    @property
    def framework(self) -> str:
        """The name in settings and messages, such as `batch/job`."""

    @property
    def resource(self) -> Resource:
        """Where its objects live."""

    def pod_sets(self, job: Job, *, topology: bool = True) -> tuple[PodSet, ...]:
        """Its pods by shape; topology requests only with `topology`. Raises InvalidObject for what cannot be read."""

    def is_suspended(self, job: Job) -> bool:
        """Whether the job is asked to have no pods."""

    def is_active(self, job: Job) -> bool:
        """Whether pods of it may still run or appear, as far as its status tells."""

    def finished(self, job: Job) -> JobResult | None:
        """How it ended; None while it has not."""

    def pods_ready(self, job: Job) -> bool:
        """Whether all of its pods are ready or have succeeded."""

    def start(self, job: Job, infos: Sequence[PodSetInfo]) -> Patch:
        """Unsuspends it with the infos merged into its templates, in one patch. Raises PodSetConflict."""

    def stop(self, job: Job, original: Sequence[PodSet] | None) -> Patch | None:
        """The next patch on the way to a suspended job with its own templates; None when nothing can be done now.

        What the API server allows in which state is the kind's affair; the controller calls again whenever the job
        changes. Without `original` (the pod sets of its Workload) the templates stay as they are.
        """


@runtime_checkable
class JobWithReclaimablePods(Protocol):
    """A kind that tells how many pods of a pod set are done and need their quota no more."""

    def reclaimable_pods(self, job: Job) -> tuple[ReclaimablePod, ...]:
        """One entry for each pod set with such pods."""


@runtime_checkable
class JobWithChildren(Protocol):
    """A kind that runs child jobs of another kind, and does not take everything back from them at a stop."""

    @property
    def children(self) -> str:
        """The framework of the child jobs."""

    @property
    def children_label(self) -> str:
        """The label by which the child jobs name their parent."""

    def child_patch(self, job: Job, child: Job, infos: Sequence[PodSetInfo], flavor_labels: Set[str]) -> Patch | None:
        """What an earlier start left on a resting child and this start must not find there; None for nothing.

        `flavor_labels` are the node labels by which flavors choose their nodes.
        """


@runtime_checkable
class JobWithPriorityClass(Protocol):
    """A kind whose priority class does not stand in its first pod template."""

    def priority_class(self, job: Job) -> str | None:
        """The name of a PriorityClass, None for none."""


@runtime_checkable
class Overlookable(Protocol):
    """A kind whose own controller may leave a job alone that was made again under the name of an earlier one."""

    def overlooked_since(self, job: Job) -> float | None:
        """Epoch seconds when its own controller last said that the job was not to run, 0 where it says nothing.

        None for a job that is not to run, or that has begun.
        """


@runtime_checkable
class SelectiveJob(Protocol):
    """A kind of which not every object is managed, or can have pods at any time, or says itself what its pods are."""

    def is_skipped(self, job: Job) -> bool:
        """Whether the job is not managed although it names a queue: it has no pods of its own."""

    def is_on_hold(self, job: Job) -> bool:
        """Whether the job can have no pods as it is."""

    def reference(self, job: Job) -> tuple[Resource, str] | None:
        """The object beside the job that says what its pods are, with its key; None for none."""


@runtime_checkable
class ElasticKind(Protocol):
    """A kind whose jobs may change their numbers of pods while they run."""

    @property
    def elastic(self) -> bool:
        """Whether they may."""


# To ask whether a class has all members of a protocol is slow, and what a kind can do never changes: asked once of each.


@cache
def as_reclaiming(kind: JobIntegration) -> JobWithReclaimablePods | None:
    """The kind as one that tells which pods are done; None where it is none."""
    return kind if isinstance(kind, JobWithReclaimablePods) else None


@cache
def as_parent(kind: JobIntegration) -> JobWithChildren | None:
    """The kind as one with child jobs; None where it is none."""
    return kind if isinstance(kind, JobWithChildren) else None


@cache
def as_prioritized(kind: JobIntegration) -> JobWithPriorityClass | None:
    """The kind as one that names its priority class itself; None where it does not."""
    return kind if isinstance(kind, JobWithPriorityClass) else None


@cache
def as_selective(kind: JobIntegration) -> SelectiveJob | None:
    """The kind as one of which not every object is managed at any time; None where it is none."""
    return kind if isinstance(kind, SelectiveJob) else None


@cache
def as_overlookable(kind: JobIntegration) -> Overlookable | None:
    """The kind as one whose jobs may be overlooked; None where it is none."""
    return kind if isinstance(kind, Overlookable) else None


@cache
def as_elastic(kind: JobIntegration) -> ElasticKind | None:
    """The kind as one whose jobs may change their size; None where they may not."""
    return kind if isinstance(kind, ElasticKind) and kind.elastic else None


def asks_for_elastic(job: Job) -> bool:
    """Whether the job wants to change its size while it runs. Only jobs of an ElasticKind can."""
    annotations: Mapping[str, str] = (job.get("metadata") or {}).get("annotations") or {}
    return annotations.get(names.ELASTIC_JOB) == "true"


def condition(job: Job, kind: str) -> Mapping[str, Any] | None:
    """The job's condition of that type."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return next((c for c in conditions if c.get("type") == kind), None)


def has_condition(job: Job, kind: str, status: str = "True") -> bool:
    """Whether the condition is there with that status."""
    found = condition(job, kind)
    return found is not None and found.get("status") == status


def infos_by_name(job: Job, infos: Sequence[PodSetInfo], expected: Sequence[str]) -> dict[str, PodSetInfo]:
    """The infos by pod set. Raises InvalidObject when they are not for exactly the job's pod sets."""
    by_name = {info.name: info for info in infos}
    if set(by_name) != set(expected):
        name = (job.get("metadata") or {}).get("name", "")
        raise InvalidObject("admission.podSetAssignments", sorted(by_name), f"must be {sorted(expected)}", name)
    return by_name


def patch_between(job: Job, changed: Job) -> Patch | None:
    """The merge patch that makes `changed` of `job`, on condition that `job` is still what is stored; None if equal."""
    body = merge_diff(job, changed)
    if not body:
        return None
    version = (job.get("metadata") or {}).get("resourceVersion")
    if version:
        body["metadata"] = {**body.get("metadata", {}), "resourceVersion": version}
    return body


def with_spec(job: Job, **changes: Any) -> dict[str, Any]:
    """The job with fields of its spec replaced; a field set to None is taken out."""
    spec = {**(job.get("spec") or {}), **changes}
    return {**job, "spec": {key: value for key, value in spec.items() if value is not None or key not in changes}}
