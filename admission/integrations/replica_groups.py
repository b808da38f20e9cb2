"""The groups of a set (a StatefulSet, a LeaderWorkerSet), and the place of a pod in one. Values; see sets.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from api.workloads import PodSet


@dataclass(frozen=True, slots=True)
class ReplicaGroup:
    """Pods that are admitted together as one Workload; `index` counts the groups of a set from 0.

    `on_hold`: it is asked to have no pods for now; its pod sets are not read then.
    """

    index: int
    workload: str
    pod_sets: tuple[PodSet, ...] = ()
    on_hold: bool = False

    @property
    def total(self) -> int:
        """How many pods it has."""
        return sum(pod_set.count for pod_set in self.pod_sets)


@dataclass(frozen=True, slots=True)
class PodMembership:
    """Where a pod belongs: the Workload of its group, its pod set; `annotations` it needs besides."""

    workload: str
    pod_set: str
    annotations: Mapping[str, str] = field(default_factory=dict)


def count_of(spec: Mapping[str, Any], name: str) -> int:
    """A number of the spec that is 1 where it is not given."""
    given: Any = spec.get(name)
    return 1 if given is None else int(given)
