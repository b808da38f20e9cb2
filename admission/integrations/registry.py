"""The kinds of job that Stowage admits without a JobKind in the cluster.

A new kind that data can describe is one file in `kinds/`; any other is an adapter and one line here. The adapter contract
tests both.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import yaml

from admission.integrations.base import JobKind
from admission.integrations.declared import DeclaredJob
from admission.integrations.job import BatchJob
from admission.integrations.jobset import JobSet
from api import job_kinds

FOLDER: Final = Path(__file__).with_name("kinds")


def _declared() -> Iterator[DeclaredJob]:
    """Those of the folder, by name."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for file in sorted(FOLDER.glob("*.yaml")):
        yield DeclaredJob(job_kinds.JobKind.from_wire(yaml.load(file.read_bytes(), loader)).spec)  # noqa: S506 - a safe one


DECLARED: Final = tuple(_declared())
ADAPTERS: Final[tuple[JobKind, ...]] = (BatchJob(), JobSet(), *DECLARED)

BY_FRAMEWORK: Final[dict[str, JobKind]] = {adapter.framework: adapter for adapter in ADAPTERS}
