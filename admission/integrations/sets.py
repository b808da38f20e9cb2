"""The interface of kinds that create groups of pods and are admitted group by group: StatefulSet, LeaderWorkerSet. Pure.

Such a set has no suspend field. The webhook marks its pod templates, so that its pods are created gated. Each group gets a
Workload composed from the set itself, since not all of its pods may exist yet, and each pod gets labels that name its group
and pod set (controllers/pods/sets.py). From then on its pods are a pod group with a prebuilt Workload. Sets are plain dicts as
decoded from JSON. To add a kind, write one module with a class of this protocol and one line below.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, Protocol

from admission.integrations.leaderworkerset import LeaderWorkerSet
from admission.integrations.pod import QueuedPod
from admission.integrations.replica_groups import PodMembership, ReplicaGroup
from admission.integrations.statefulset import StatefulSet
from api import names
from api.kube.resources import Resource


class SetKind(Protocol):
    """The adapter of one kind of set. `short` makes names of Workloads fit into label values."""

    @property
    def framework(self) -> str:
        """The kind's name in settings and in the pod annotation POD_SUSPENDING_PARENT."""

    @property
    def resource(self) -> Resource:
        """The API resource of the kind's objects."""

    def groups(
        self, obj: Mapping[str, Any], present: Collection[int], *, topology: bool = True, short: bool = False
    ) -> tuple[ReplicaGroup, ...]:
        """Returns the groups that the set asks for or, by index in `present`, still has pods of. Raises InvalidObject."""

    def set_of(self, pod: QueuedPod) -> str:
        """Returns the name of the pod's set, or an empty string if the pod does not name it yet."""

    def index_of(self, pod: QueuedPod) -> int | None:
        """Returns the index of the pod's group, or None if the pod does not state it yet."""

    def seat(self, obj: Mapping[str, Any], pod: QueuedPod, *, short: bool = False) -> PodMembership | None:
        """Returns the pod's membership, or None if the pod does not state its group yet."""


SETS: Final[tuple[SetKind, ...]] = (StatefulSet(), LeaderWorkerSet())
BY_FRAMEWORK: Final[dict[str, SetKind]] = {kind.framework: kind for kind in SETS}


def kind_of(pod: QueuedPod) -> SetKind | None:
    """Returns the kind of the set that the pod belongs to, or None."""
    return BY_FRAMEWORK.get(pod.annotations.get(names.POD_SUSPENDING_PARENT, ""))


def is_waiting_for_its_seat(pod: QueuedPod) -> bool:
    """Reports whether the pod belongs to a set but has no group yet; such a pod is not a single pod."""
    return not pod.group and kind_of(pod) is not None
