"""What is asked of a kind that makes groups of pods and is admitted by them: StatefulSet, LeaderWorkerSet. Pure.

Such a set has no switch that suspends it. The webhook marks its pod templates, so that its pods are born gated; each
group gets a Workload made from the set itself, for not all of its pods need be there yet; and each pod gets a label
with its group and which pod set it is of (controllers/pods/sets.py). From then on they are a pod group with a Workload
that was made for it. Sets are plain dicts as decoded from JSON. To add a kind: one module with a class of this
protocol, one line below.
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
    """One kind of set. `short`: names of Workloads fit into labels."""

    @property
    def framework(self) -> str:
        """The name in settings and in the annotation POD_SUSPENDING_PARENT of its pods."""

    @property
    def resource(self) -> Resource:
        """Where its objects live."""

    def groups(
        self, obj: Mapping[str, Any], present: Collection[int], *, topology: bool = True, short: bool = False
    ) -> tuple[ReplicaGroup, ...]:
        """The groups that it asks for; `present` are those of which pods are there. Raises InvalidObject."""

    def set_of(self, pod: QueuedPod) -> str:
        """The name of the set that the pod is of, empty while it does not say."""

    def index_of(self, pod: QueuedPod) -> int | None:
        """The pod's group, None while it does not say."""

    def seat(self, obj: Mapping[str, Any], pod: QueuedPod, *, short: bool = False) -> PodMembership | None:
        """The pod's place, None while it does not say."""


SETS: Final[tuple[SetKind, ...]] = (StatefulSet(), LeaderWorkerSet())
BY_FRAMEWORK: Final[dict[str, SetKind]] = {kind.framework: kind for kind in SETS}


def kind_of(pod: QueuedPod) -> SetKind | None:
    """The kind of set that the pod is of."""
    return BY_FRAMEWORK.get(pod.annotations.get(names.POD_SUSPENDING_PARENT, ""))


def is_waiting_for_its_seat(pod: QueuedPod) -> bool:
    """Whether it is of a set and has no group yet: it is not a pod of its own."""
    return not pod.group and kind_of(pod) is not None
