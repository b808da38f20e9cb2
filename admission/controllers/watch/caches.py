"""Views of informers, updated at once with the answers to the controllers' own writes.

Informers lag behind writes. Every write carries the resourceVersion it was made from: while an informer still shows that
version, the answer to the write is newer; once it shows any other version, the informer is newer. A Workload just created is
expected until the informer shows it, so that no second one is created meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import takewhile
from typing import Any, Final, Generic, Protocol, TypeVar

from cachetools import LRUCache

from admission.controllers.watch.local_copies import Copy
from admission.controllers.watch.rounds import steps_over
from admission.integrations.base import Job
from api import names
from api.kube.decode import identity
from api.kube.turns import Turns
from api.meta import OwnerReference, object_key, split_key
from api.queues import WorkloadPriorityClass
from api.topology import ResourceFlavor
from api.workloads import Workload

T = TypeVar("T")

_GONE: Final = 4096
"""The number of deleted objects that are remembered: a write is answered within seconds of the deletion."""

BY_JOB = "job"
BY_PREBUILT = "prebuilt"
BY_PARENT = "parent"
BY_REFERENCE = "reference"


class InformerView(Copy[T], Protocol[T]):
    """The part of an informer that the controllers use."""

    @property
    def has_synced(self) -> bool:
        """Reports whether the first list has arrived."""

    async def synced(self, timeout: float) -> None:  # noqa: ASYNC109 - the informer's own signature
        """Waits until the first list has arrived."""

    def file_again(self, name: str, key: str, /) -> None:
        """Indexes the object of the key again, after the values that the index's function returns for it changed."""


class WorkloadViews(Protocol):
    """The views that controllers of jobs, pods and sets read besides their own objects."""

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
        """All scheduling.k8s.io/v1 PriorityClasses."""


class MutationCache(Generic[T]):
    """The answers to this process's writes, by key, for as long as they are newer than the informer's objects."""

    def __init__(self) -> None:
        self._answers: dict[str, tuple[frozenset[str], T]] = {}
        self._gone: LRUCache[str, bool] = LRUCache(_GONE)

    def note(self, key: str, before: T, answer: T) -> None:
        """Records the answer to a write that was conditional on the version of `before`.

        The answer to a write that ended an object often comes after the watch has shown its end; such an answer is not kept.
        """
        if identity(answer).uid in self._gone:
            return
        version = identity(before).resource_version
        known = self._answers.get(key)
        older = known[0] if known and identity(known[1]).resource_version == version else frozenset[str]()
        self._answers[key] = (older | {version}, answer)

    def of(self, key: str, copy: T) -> T:
        """Returns the newer of the informer's copy and the recorded answer."""
        known = self._answers.get(key)
        if known is None:
            return copy
        if identity(copy).resource_version in known[0]:
            return known[1]
        del self._answers[key]
        return copy

    def forget(self, key: str, gone: T) -> None:
        """Drops the answer of a deleted object."""
        self._answers.pop(key, None)
        if uid := identity(gone).uid:
            self._gone[uid] = True


class ExpectedWorkloads:
    """Workloads that were created but not yet seen, by job. `patience` is in seconds."""

    def __init__(self, patience: float, clock: Callable[[], float]) -> None:
        self._patience, self._clock = patience, clock
        self._until: dict[str, tuple[str, float]] = {}

    def expect(self, job: str, workload: str) -> None:
        """Records that the job's Workload was created."""
        now = self._clock()
        for old in list(takewhile(lambda old: self._until[old][1] <= now, self._until)):
            del self._until[old]
        self._until.pop(job, None)  # the oldest first
        self._until[job] = (workload, now + self._patience)

    def remaining(self, job: str) -> float | None:
        """Returns the remaining seconds to wait for the job's Workload, or None if none is expected."""
        known = self._until.get(job)
        if known is None:
            return None
        left = known[1] - self._clock()
        if left > 0:
            return left
        del self._until[job]
        return None

    def seen(self, job: str, workload: str) -> None:
        """Records that the informer shows the Workload."""
        if self._until.get(job, ("",))[0] == workload:
            del self._until[job]


def job_key(framework: str, key: str) -> str:
    """Returns the key of a job among all kinds: `batch/job:ns/name`."""
    return f"{framework}:{key}"


def job_keys(jobs: Mapping[str, Copy[Any]], namespace: str) -> Iterator[str | None]:
    """Yields the keys of the namespace's jobs among all kinds, and None for each other job; see Rounds.add_found."""
    for framework, copy in tuple(jobs.items()):
        for key, _ in steps_over(copy.objects):
            yield job_key(framework, key) if split_key(key)[0] == namespace else None


def group_of(owner: OwnerReference) -> str:
    """Returns the API group of the owner."""
    return owner.api_version.rpartition("/")[0]


def owner_key(workload: Workload, frameworks: Mapping[tuple[str, str], str]) -> str | None:
    """Returns the key of the job or set that owns the Workload; `frameworks` is keyed by (API group, kind).

    The API version is ignored: the API server may serve an object in several versions, and a JobKind may later declare another
    one.
    """
    owner = workload.owner
    framework = frameworks.get((group_of(owner), owner.kind)) if owner else None
    if owner is None or framework is None:
        return None
    return job_key(framework, object_key(workload.metadata.namespace, owner.name))


async def file_owned(
    workloads: InformerView[Workload], index: str, frameworks: Mapping[tuple[str, str], str], framework: str
) -> list[str]:
    """Indexes all Workloads again by their owners, in turns, after a framework came to `frameworks`, by which the index files
    them. Returns the keys of the framework's jobs that own one.
    """
    owners: dict[str, None] = {}
    turns = Turns()
    for key, workload in steps_over(workloads.objects):
        workloads.file_again(index, key)
        owner = owner_key(workload, frameworks)
        if owner is not None and owner.startswith(f"{framework}:"):
            owners[owner] = None
        await turns.give_way()
    return list(owners)


def is_orphan(workload: Workload) -> bool:
    """Reports whether a job's Workload has lost its owner; Workloads of sets are left to their pods (pods/pod_plan.py)."""
    meta = workload.metadata
    of_a_set = names.COMPONENT_INDEX in meta.annotations
    return names.JOB_UID_LABEL in meta.labels and not meta.owner_references and not of_a_set


def job_owner(job: Job) -> OwnerReference | None:
    """Returns the owner reference of the job's own controller, or None."""
    references: list[dict[str, Any]] = (job.get("metadata") or {}).get("ownerReferences") or []
    controller = next((reference for reference in references if reference.get("controller")), None)
    return OwnerReference.from_wire(controller) if controller else None


def key_of(job: Job) -> str:
    """Returns the key `namespace/name`."""
    return object_key(job["metadata"].get("namespace"), job["metadata"]["name"])


def owner_uid(workload: Workload) -> str:
    """Returns the uid of the job or set that owns the Workload, or an empty string."""
    owner = workload.owner
    return owner.uid if owner else ""
