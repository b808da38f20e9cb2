"""The interface of kinds that create groups of pods and are admitted group by group: StatefulSet, LeaderWorkerSet. Pure.

Such a set has no suspend field. The webhook marks its pod templates, so that its pods are created gated. Each group gets a
Workload composed from the set itself, since not all of its pods may exist yet, and each pod gets labels that name its group
and pod set (controllers/pods/sets/sets.py). From then on its pods are a pod group with a prebuilt Workload. Sets are plain
dicts as decoded from JSON. To add a kind, write one module with a class of this protocol and one line below. Kinds that
JobKinds declare by their scale (scaled.py) come and go while the process runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, Protocol

from admission.integrations.pods.pod import QueuedPod
from admission.integrations.sets.leaderworkerset import LeaderWorkerSet
from admission.integrations.sets.replica_groups import PodMembership, ReplicaGroup
from admission.integrations.sets.scaled import ScaledSet
from admission.integrations.sets.statefulset import StatefulSet
from api import names
from api.kube.resources import Resource

Template = Mapping[str, Any]


class SetKind(Protocol):
    """The adapter of one kind of set. `short` makes names of Workloads fit into label values."""

    @property
    def framework(self) -> str:
        """The kind's name in settings and in the pod annotation POD_SUSPENDING_PARENT."""

    @property
    def resource(self) -> Resource:
        """The API resource of the kind's objects."""

    @property
    def needs_pod(self) -> bool:
        """Reports whether the kind's objects have no known pod template, so that the first waiting pod gives it."""

    def groups(
        self,
        obj: Mapping[str, Any],
        present: Collection[int],
        *,
        topology: bool = True,
        short: bool = False,
        example: Template | None = None,
    ) -> tuple[ReplicaGroup, ...]:
        """Returns the groups that the set asks for or, by index in `present`, still has pods of. Raises InvalidObject.

        `example` is a pod template to use for a kind whose objects have none.
        """

    def may_resize(self, obj: Mapping[str, Any]) -> bool:
        """Reports whether the set's one group may change its size while it runs, in slices as a job does."""

    def set_of(self, pod: QueuedPod) -> str:
        """Returns the name of the pod's set, or an empty string if the pod does not name it yet."""

    def index_of(self, pod: QueuedPod) -> int | None:
        """Returns the index of the pod's group, or None if the pod does not state it yet."""

    def membership(self, obj: Mapping[str, Any], pod: QueuedPod, *, short: bool = False) -> PodMembership | None:
        """Returns the pod's membership, or None if the pod does not state its group yet."""


SETS: Final[tuple[SetKind, ...]] = (StatefulSet(), LeaderWorkerSet())
BY_FRAMEWORK: Final[dict[str, SetKind]] = {kind.framework: kind for kind in SETS}
GroupKind = tuple[str, str]


class ScaledKinds:
    """The kinds of set that JobKinds of the cluster declare, keyed by API group and kind."""

    def __init__(self) -> None:
        self._by_kind: dict[GroupKind, ScaledSet] = {}
        self._by_framework: dict[str, ScaledSet] = {}

    def get(self, kind: GroupKind) -> ScaledSet | None:
        """Returns the adapter of the kind, or None."""
        return self._by_kind.get(kind)

    def of_framework(self, framework: str) -> ScaledSet | None:
        """Returns the adapter of that framework, or None."""
        return self._by_framework.get(framework)

    def declared(self) -> tuple[ScaledSet, ...]:
        """Returns all adapters, sorted by group and kind."""
        return tuple(self._by_kind[key] for key in sorted(self._by_kind))

    def declare(self, adapter: ScaledSet) -> None:
        """Manages objects of this kind from now on."""
        self._by_kind[adapter.resource.group, adapter.resource.kind] = adapter
        self._by_framework[adapter.framework] = adapter

    def withdraw(self, kind: GroupKind) -> None:
        """Stops managing objects of this kind."""
        if (adapter := self._by_kind.pop(kind, None)) is not None:
            del self._by_framework[adapter.framework]


SCALED: Final = ScaledKinds()
"""Those of this process: one process serves one cluster."""


def all_sets() -> Iterable[SetKind]:
    """Returns every kind of set that the process manages."""
    return (*SETS, *SCALED.declared())


def kind_of(pod: QueuedPod) -> SetKind | None:
    """Returns the kind of the set that the pod belongs to, or None."""
    framework = pod.annotations.get(names.POD_SUSPENDING_PARENT, "")
    return BY_FRAMEWORK.get(framework) or SCALED.of_framework(framework)


def is_waiting_for_its_group(pod: QueuedPod) -> bool:
    """Reports whether the pod belongs to a set but has no group yet; such a pod is not a single pod.

    The set's name in the pod's annotation suffices: the webhook may know of a JobKind before the controller does.
    """
    return not pod.group and (names.SET_NAME in pod.annotations or kind_of(pod) is not None)
