"""Ranks of pods in pod-set groups, for kinds whose controllers number the pods of each pod set on their own. Pure.

The ungater numbers a group's pods together, the smaller pod set first (ungater/gate_plan.py). The annotation `pod-index-offset`
says at which of these numbers a pod set starts; a start writes it to the template.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from admission.integrations.paths import value_at
from api import names


@dataclass(frozen=True, slots=True)
class RankedPods:
    """A pod set whose pods have ranks."""

    name: str
    count: int
    """The number of its pods."""
    template: Mapping[str, Any]
    first: int | None = 0
    """The number that its controller gives the first of them; None if its pods have no numbers."""


def offsets(pod_sets: Sequence[RankedPods]) -> dict[str, dict[str, str]]:
    """Returns the annotations with each pod set's offset by its name: none if it is 0 or if the template has one."""
    before: dict[str, int] = {}
    offsets_of: dict[str, dict[str, str]] = {}
    for pods in sorted(pod_sets, key=lambda pods: pods.count):
        annotations = value_at(pods.template, ("metadata", "annotations"))
        annotations = annotations if isinstance(annotations, Mapping) else {}
        group = annotations.get(names.PODSET_GROUP_NAME)
        started = 0 if group is None else before.get(str(group), 0)
        before[str(group)] = started + pods.count
        offset = 0 if pods.first is None or names.POD_INDEX_OFFSET in annotations else pods.first - started
        offsets_of[pods.name] = {names.POD_INDEX_OFFSET: str(offset)} if offset else {}
    return offsets_of
