"""What a declared kind asks of a function of pod sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from admission.integrations.base import Job
from admission.integrations.entries import DeclaredPodSet
from api.job_kinds import PodSetRule
from api.kube.resources import Resource

Template = Mapping[str, Any]


class PodSetFunction(Protocol):
    """See the package. Every method is pure but for what `referenced.py` holds."""

    @property
    def reads(self) -> tuple[Resource, ...]:
        """The kinds of object that it reads beside the job."""

    def pod_sets(self, job: Job, rule: PodSetRule) -> Sequence[DeclaredPodSet]:
        """The pod sets in order, each with template and count. Raises InvalidObject."""

    def reference(self, job: Job) -> tuple[Resource, str] | None:
        """The object beside the job that says what its pods are, with its key; None for none."""

    def written(self, job: Job, entry: DeclaredPodSet, template: Template) -> Job:
        """The job with what a start changes of a template; only where the JobKind has no `writeBack`."""
