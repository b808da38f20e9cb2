"""The registry of job kinds that a process admits: built-in kinds, and kinds that the cluster's JobKinds declare.

A new built-in kind is one file in `kinds/` if data can describe it, else an adapter and one line here. The adapter contract
tests both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from admission.integrations.base import JobIntegration
from admission.integrations.declared.declared import DeclaredJob
from admission.integrations.job import BatchJob
from admission.integrations.jobset import JobSet
from api import job_kinds
from api.text import manifests

GroupKind = tuple[str, str]

FOLDER: Final = Path(__file__).with_name("kinds")


def _declared() -> Iterator[DeclaredJob]:
    """Yields the adapters of the folder's files, sorted by file name."""
    for file in sorted(FOLDER.glob("*.yaml")):
        yield DeclaredJob(job_kinds.JobKind.from_wire(manifests.read_one(file)).spec)


DECLARED: Final = tuple(_declared())
ADAPTERS: Final[tuple[JobIntegration, ...]] = (BatchJob(), JobSet(), *DECLARED)

REFERENCED_KINDS: Final = tuple(
    dict.fromkeys(kind for each in DECLARED for one in each.functions for kind in one.reads)
)
"""Kinds of objects that define the pods of jobs without being jobs."""

BY_FRAMEWORK: Final[dict[str, JobIntegration]] = {adapter.framework: adapter for adapter in ADAPTERS}


class Integrations:
    """The adapters by API group and kind. Declared kinds come and go while the process runs."""

    def __init__(self, built_in: Iterable[JobIntegration]) -> None:
        self._built_in: dict[GroupKind, JobIntegration] = {_key(adapter): adapter for adapter in built_in}
        self._declared: dict[GroupKind, DeclaredJob] = {}

    def get(self, kind: GroupKind) -> JobIntegration | None:
        """Returns the adapter of the kind, or None if the kind is not managed as a job."""
        return self._built_in.get(kind) or self._declared.get(kind)

    def is_built_in(self, kind: GroupKind) -> bool:
        """Reports whether the kind is available without a JobKind."""
        return kind in self._built_in

    def is_declared(self, kind: GroupKind) -> bool:
        """Reports whether a JobKind of the cluster declares the kind."""
        return kind in self._declared

    def declared(self) -> tuple[DeclaredJob, ...]:
        """Returns the adapters of declared kinds, sorted by group and kind."""
        return tuple(self._declared[key] for key in sorted(self._declared))

    def adapters(self) -> tuple[JobIntegration, ...]:
        """Returns all adapters, built-in kinds first."""
        return (*self._built_in.values(), *self.declared())

    def declare(self, adapter: DeclaredJob) -> None:
        """Starts to admit jobs of this kind. Raises ValueError for a built-in kind."""
        if _key(adapter) in self._built_in:
            raise ValueError(f"{adapter.framework} is built in")
        self._declared[_key(adapter)] = adapter

    def withdraw(self, kind: GroupKind) -> None:
        """Stops admitting jobs of this kind."""
        self._declared.pop(kind, None)


def _key(adapter: JobIntegration) -> GroupKind:
    return adapter.resource.group, adapter.resource.kind


KINDS: Final = Integrations(ADAPTERS)
"""The registry of this process, which serves one cluster."""
