"""A pod template of a job as the validators of its annotations see it. Decides nothing; made by job.py and jobset.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from admission.webhook.fields import FieldPath

Annotations = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Template:
    """A pod template of a job: where it stands (`path`, of the template itself), which pod set it is, how many pods."""

    path: FieldPath
    pod_set: str
    count: int
    body: dict[str, Any]

    @property
    def metadata(self) -> FieldPath:
        """Path of the template's metadata."""
        return self.path.child("metadata")

    @property
    def annotations(self) -> Annotations:
        """The template's annotations."""
        return (self.body.get("metadata") or {}).get("annotations") or {}
