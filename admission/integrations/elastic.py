"""Kinds whose jobs may be resized while they run, and jobs that ask for it (annotation `elastic-job`)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Protocol, runtime_checkable

from admission.integrations.base import Job, JobIntegration
from api import names


@runtime_checkable
class ResizableKind(Protocol):
    """A kind whose jobs may change their number of pods while they run."""

    def least_counts(self, job: Job) -> Mapping[str, int]:
        """Returns the least number of pods to start with, for pod sets where it is below their size. Raises InvalidObject."""

    @property
    def resizable(self) -> bool:
        """Reports whether jobs of this kind may change their number of pods."""


@cache
def as_elastic(kind: JobIntegration) -> ResizableKind | None:
    """Returns the adapter if its jobs are elastic, else None."""
    return kind if isinstance(kind, ResizableKind) and kind.resizable else None


def asks_for_elastic(job: Job) -> bool:
    """Reports whether the job asks to be elastic; only jobs of an ResizableKind can be."""
    annotations: Mapping[str, str] = (job.get("metadata") or {}).get("annotations") or {}
    return annotations.get(names.ELASTIC_JOB) == "true"
