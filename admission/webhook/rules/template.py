"""A pod template of a job, as validators of annotations read it. job.py, jobset.py and the other kinds create it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from admission.webhook.rules.fields import FieldPath

Annotations = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Template:
    """A pod template: the path of its field, the name of its pod set, its number of pods, and its object."""

    path: FieldPath
    pod_set: str
    count: int
    body: dict[str, Any]

    @property
    def metadata(self) -> FieldPath:
        """Path of the template's metadata."""
        return self.path.child("metadata")

    @property
    def labels(self) -> Mapping[str, str]:
        """The template's labels."""
        return (self.body.get("metadata") or {}).get("labels") or {}

    @property
    def annotations(self) -> Annotations:
        """The template's annotations."""
        return (self.body.get("metadata") or {}).get("annotations") or {}
