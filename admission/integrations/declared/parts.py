"""This process's view of the parts of jobs: the managed objects that the job's own controller created for it.

The controller provides it from its informers. Commands that read files or a cluster once have none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from admission.integrations.base import Job, JobIntegration
from api.kube.resources import Resource

Parts = Iterable[tuple[JobIntegration, Mapping[str, Any]]]
FindParts = Callable[[Resource, Job], Parts]


class JobParts:
    """Finds the parts of a job."""

    def __init__(self) -> None:
        self._find: FindParts | None = None

    def found_by(self, find: FindParts) -> None:
        """Uses this function from now on."""
        self._find = find

    def of(self, resource: Resource, job: Job) -> Parts:
        """Returns the known parts of a job of that kind, each with its adapter."""
        return () if self._find is None else self._find(resource, job)


PARTS: Final = JobParts()
"""Those of this process: one process serves one cluster."""
