"""The kinds of job that a process admits: the built-in ones, and those that JobKinds of the cluster declare.

A new built-in kind that data can describe is one file in `kinds/`; any other is an adapter and one line here. The adapter
contract tests both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from admission.integrations.base import JobIntegration
from admission.integrations.declared import DeclaredJob
from admission.integrations.job import BatchJob
from admission.integrations.jobset import JobSet
from api import job_kinds, manifests

GroupKind = tuple[str, str]

FOLDER: Final = Path(__file__).with_name("kinds")


def _declared() -> Iterator[DeclaredJob]:
    """Those of the folder, by name."""
    for file in sorted(FOLDER.glob("*.yaml")):
        yield DeclaredJob(job_kinds.JobKind.from_wire(manifests.read_one(file)).spec)


DECLARED: Final = tuple(_declared())
ADAPTERS: Final[tuple[JobIntegration, ...]] = (BatchJob(), JobSet(), *DECLARED)

REFERENCED_KINDS: Final = tuple(
    dict.fromkeys(kind for each in DECLARED for one in each.functions for kind in one.reads)
)
"""Kinds of object that say what pods jobs have, without being jobs."""

BY_FRAMEWORK: Final[dict[str, JobIntegration]] = {adapter.framework: adapter for adapter in ADAPTERS}


class Integrations:
    """The kinds of job by API group and kind. Those of JobKinds come and go while the process runs."""

    def __init__(self, built_in: Iterable[JobIntegration]) -> None:
        self._built_in: dict[GroupKind, JobIntegration] = {_key(adapter): adapter for adapter in built_in}
        self._declared: dict[GroupKind, DeclaredJob] = {}

    def get(self, kind: GroupKind) -> JobIntegration | None:
        """The adapter of the kind, None for one that is not managed as a job."""
        return self._built_in.get(kind) or self._declared.get(kind)

    def is_built_in(self, kind: GroupKind) -> bool:
        """Whether the kind is there without a JobKind."""
        return kind in self._built_in

    def is_declared(self, kind: GroupKind) -> bool:
        """Whether a JobKind of the cluster declares the kind."""
        return kind in self._declared

    def declared(self) -> tuple[DeclaredJob, ...]:
        """The adapters of the kinds that JobKinds declare, by group and kind."""
        return tuple(self._declared[key] for key in sorted(self._declared))

    def adapters(self) -> tuple[JobIntegration, ...]:
        """All adapters, the built-in ones first."""
        return (*self._built_in.values(), *self.declared())

    def declare(self, adapter: DeclaredJob) -> None:
        """Admit jobs of this kind from now on. Raises ValueError for a built-in kind."""
        if _key(adapter) in self._built_in:
            raise ValueError(f"{adapter.framework} is built in")
        self._declared[_key(adapter)] = adapter

    def withdraw(self, kind: GroupKind) -> None:
        """Admit jobs of this kind no more."""
        self._declared.pop(kind, None)


def _key(adapter: JobIntegration) -> GroupKind:
    return adapter.resource.group, adapter.resource.kind


KINDS: Final = Integrations(ADAPTERS)
"""Those of this process: one process serves one cluster."""
