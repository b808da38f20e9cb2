"""What the job controller sees: the informers' copies, moved ahead by what its own writes were answered.

An informer lags behind our writes by a moment. Every write carries the version it was made from, so that while a copy
still shows that version, the answer to the write is what the API server has; as soon as the copy shows any other, the copy
is newer. A Workload just created is expected until the informer shows it, and no second one is made meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from admission.integrations.base import Job
from api import names
from api.kube.decode import identity
from api.kube.store import Change
from api.meta import OwnerReference, object_key
from api.queues import WorkloadPriorityClass
from api.topology import ResourceFlavor
from api.workloads import Workload

T = TypeVar("T")

BY_JOB = "job"
BY_PREBUILT = "prebuilt"
BY_PARENT = "parent"
BY_REFERENCE = "reference"


class InformerView(Protocol[T]):
    """What is used of an informer."""

    @property
    def objects(self) -> Mapping[str, T]:
        """By key."""

    @property
    def has_synced(self) -> bool:
        """Whether the first list is there."""

    def add_handler(self, fn: Callable[[Change[T]], None]) -> None:
        """`fn` is called at every change."""

    def add_index(self, name: str, fn: Callable[[T], Iterable[str]]) -> None:
        """Groups the objects."""

    def by_index(self, name: str, value: str) -> list[T]:
        """The objects of a group."""

    async def synced(self, timeout: float) -> None:  # noqa: ASYNC109 - the informer's own signature
        """Until the first list is there."""


class WorkloadViews(Protocol):
    """What the controllers of jobs, pods and sets read besides their own objects."""

    @property
    def workloads(self) -> InformerView[Workload]:
        """All Workloads."""

    @property
    def flavors(self) -> InformerView[ResourceFlavor]:
        """All ResourceFlavors."""

    @property
    def workload_priorities(self) -> InformerView[WorkloadPriorityClass]:
        """All WorkloadPriorityClasses."""

    @property
    def priorities(self) -> InformerView[dict[str, Any]]:
        """All PriorityClasses of scheduling.k8s.io/v1."""


class MutationCache(Generic[T]):
    """The answers to our writes, by key, for as long as they are newer than the copies."""

    def __init__(self) -> None:
        self._answers: dict[str, tuple[frozenset[str], T]] = {}

    def note(self, key: str, before: T, answer: T) -> None:
        """`answer` followed `before` directly: the write was made on that condition."""
        version = identity(before).resource_version
        known = self._answers.get(key)
        older = known[0] if known and identity(known[1]).resource_version == version else frozenset[str]()
        self._answers[key] = (older | {version}, answer)

    def of(self, key: str, copy: T) -> T:
        """The newer of the copy and the answer."""
        known = self._answers.get(key)
        if known is None:
            return copy
        if identity(copy).resource_version in known[0]:
            return known[1]
        del self._answers[key]
        return copy

    def forget(self, key: str) -> None:
        """The object is gone."""
        self._answers.pop(key, None)


class ExpectedWorkloads:
    """Workloads that were created and not seen yet, by the job they belong to. `patience` in seconds."""

    def __init__(self, patience: float, clock: Callable[[], float]) -> None:
        self._patience, self._clock = patience, clock
        self._until: dict[str, tuple[str, float]] = {}

    def expect(self, job: str, workload: str) -> None:
        """The job's Workload was created."""
        self._until[job] = (workload, self._clock() + self._patience)

    def remaining(self, job: str) -> float | None:
        """Seconds to wait for it at most; None when nothing is expected (any more)."""
        known = self._until.get(job)
        if known is None:
            return None
        left = known[1] - self._clock()
        if left > 0:
            return left
        del self._until[job]
        return None

    def seen(self, job: str, workload: str) -> None:
        """The informer showed it."""
        if self._until.get(job, ("",))[0] == workload:
            del self._until[job]


def controller_of(references: Iterable[OwnerReference]) -> OwnerReference | None:
    """The reference of the owner in charge."""
    return next((reference for reference in references if reference.controller), None)


def job_key(framework: str, key: str) -> str:
    """The key of a job among all kinds: `batch/job:ns/name`."""
    return f"{framework}:{key}"


def owner_key(workload: Workload, frameworks: Mapping[tuple[str, str], str]) -> str | None:
    """The key of the job that controls the Workload; `frameworks` by (apiVersion, kind)."""
    owner = controller_of(workload.metadata.owner_references)
    framework = frameworks.get((owner.api_version, owner.kind)) if owner else None
    if owner is None or framework is None:
        return None
    return job_key(framework, object_key(workload.metadata.namespace, owner.name))


def is_orphan(workload: Workload) -> bool:
    """Whether a job once made it and it has no owner any more. Those of sets are left to their pods (pods/plan.py)."""
    meta = workload.metadata
    of_a_set = names.COMPONENT_INDEX in meta.annotations
    return names.JOB_UID_LABEL in meta.labels and not meta.owner_references and not of_a_set


def job_owner(job: Job) -> OwnerReference | None:
    """The job's own controller."""
    references: list[dict[str, Any]] = (job.get("metadata") or {}).get("ownerReferences") or []
    found = next((reference for reference in references if reference.get("controller")), None)
    return OwnerReference.from_wire(found) if found else None


def key_of(job: Job) -> str:
    """`namespace/name`."""
    return object_key(job["metadata"].get("namespace"), job["metadata"]["name"])


def owner_uid(workload: Workload) -> str:
    """The uid of the job in charge, empty for none."""
    owner = controller_of(workload.metadata.owner_references)
    return owner.uid if owner else ""
