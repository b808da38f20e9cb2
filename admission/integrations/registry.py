"""The kinds of job that Stowage admits. A new kind is one line here; the adapter contract then tests it."""

from __future__ import annotations

from typing import Final

from admission.integrations.base import JobKind
from admission.integrations.declared import DeclaredJob
from admission.integrations.job import BatchJob
from admission.integrations.jobset import JobSet
from admission.integrations.kubeflow import KUBEFLOW

DECLARED: Final = tuple(map(DeclaredJob, KUBEFLOW))
ADAPTERS: Final[tuple[JobKind, ...]] = (BatchJob(), JobSet(), *DECLARED)

BY_FRAMEWORK: Final[dict[str, JobKind]] = {adapter.framework: adapter for adapter in ADAPTERS}
