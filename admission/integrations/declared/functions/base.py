"""The interface of functions that compute the pod sets of a declared kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from admission.integrations.base import Job
from admission.integrations.declared.entries import DeclaredPodSet
from api.job_kinds import PodSetRule
from api.kube.resources import Resource

Template = Mapping[str, Any]


class PodSetFunction(Protocol):
    """Computes pod sets where paths cannot. Every method is pure except for reading objects held by `referenced.py`."""

    @property
    def reads(self) -> tuple[Resource, ...]:
        """The resources, other than the job itself, whose objects the function reads."""

    def pod_sets(self, job: Job, rule: PodSetRule) -> Sequence[DeclaredPodSet]:
        """Returns the pod sets in order, each with template and count. Raises InvalidObject."""

    def reference(self, job: Job) -> tuple[Resource, str] | None:
        """Returns resource and key of the object that defines the job's pods, or None if the job itself does."""

    def written(self, job: Job, entry: DeclaredPodSet, template: Template) -> Job:
        """Returns the job with the changed template written into it; called only if the JobKind has no `writeBack`."""
