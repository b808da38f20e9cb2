"""Value types for the groups of a set (StatefulSet, LeaderWorkerSet) and a pod's membership in a group; see sets.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from api.workloads import PodSet


@dataclass(frozen=True, slots=True)
class ReplicaGroup:
    """Pods that are admitted together as one Workload."""

    index: int
    """Counts a set's groups from 0."""
    workload: str
    pod_sets: tuple[PodSet, ...] = ()
    """Empty if it is on hold."""
    on_hold: bool = False
    """Whether the set asks for no pods at present."""

    @property
    def total(self) -> int:
        """The group's number of pods."""
        return sum(pod_set.count for pod_set in self.pod_sets)


@dataclass(frozen=True, slots=True)
class PodMembership:
    """The Workload and the pod set that a pod belongs to, and `annotations` to add to the pod."""

    workload: str
    pod_set: str
    annotations: Mapping[str, str] = field(default_factory=dict)


def count_of(spec: Mapping[str, Any], name: str) -> int:
    """Returns a number from the spec, 1 by default."""
    given: Any = spec.get(name)
    return 1 if given is None else int(given)
