"""What is kept of a bound pod: where it runs, what it says about its workload, and the controller that owns it. Values only."""

from __future__ import annotations

from sys import intern
from typing import Final

import msgspec

from api.meta import parse_time
from api.names import (
    MANAGED_LABEL,
    POD_SUSPENDING_PARENT,
    PODSET_LABEL,
    QUEUE_NAME_LABEL,
    TOPOLOGY_PODSET,
    TOPOLOGY_WORKLOAD,
    WORKLOAD_ANNOTATION,
    WORKLOAD_SLICE_NAME,
)

_MIRROR: Final = "kubernetes.io/config.mirror"
"""On pods that mirror a static pod of the kubelet: `stowage doctor` takes no pod of a node itself for a foreign one."""
_LONGEST: Final = 320
"""Characters. A name has at most 253, an apiVersion with its group some more. Longer texts name nothing and are not kept."""
_ENDED = frozenset(("Succeeded", "Failed"))


class Owner(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """One owner reference of a pod."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None

    @property
    def could_exist(self) -> bool:
        """Reports whether there could be an object with such a name: the API server does not bound references."""
        return all(len(part) <= _LONGEST for part in (self.api_version, self.kind, self.name, self.uid))


class PodMeta(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """The metadata of a pod that is read."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    owner_references: tuple[Owner, ...] = ()


class PodSpec(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """Where a pod runs."""

    node_name: str = ""


class PodStatus(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """Whether a pod has ended."""

    phase: str = ""


class ListedPod(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """A pod as listed; the reader keeps only `PodFacts`."""

    metadata: PodMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class PodFacts(msgspec.Struct, frozen=True, gc=False):
    """A bound pod that has not ended. Anybody can write what it says of its Workload, its pod set and whether it is managed."""

    namespace: str
    name: str
    node: str
    uid: str = ""
    workload: str = ""
    """The name of the Workload that an annotation names."""
    pod_set: str = ""
    """The name of the pod set that it names."""
    managed: bool = False
    """Whether a label says that it is of a workload."""
    owner: Owner | None = None
    """Its controller."""
    mirror: bool = False
    """Whether it says that it is the image of a static pod."""
    until: float = 0.0
    """The end of its grace period in epoch seconds; 0 while it is not being deleted."""
    queue: str = ""
    """What queues it: its queue, or the kind of set that does; empty if nothing says so."""


def pod_facts(pod: ListedPod) -> PodFacts | None:
    """Returns the facts of a pod, None for one that occupies no node."""
    meta = pod.metadata
    if not pod.spec.node_name or pod.status.phase in _ENDED:
        return None
    marks = meta.annotations
    named = marks.get(WORKLOAD_SLICE_NAME) or marks.get(WORKLOAD_ANNOTATION) or marks.get(TOPOLOGY_WORKLOAD) or ""
    pod_set = meta.labels.get(PODSET_LABEL) or marks.get(TOPOLOGY_PODSET) or ""
    return PodFacts(
        intern(meta.namespace),
        meta.name,
        intern(pod.spec.node_name),
        meta.uid,
        intern(_name(named)),
        intern(_name(pod_set)),
        PODSET_LABEL in meta.labels or MANAGED_LABEL in meta.labels,
        next((owner for owner in meta.owner_references if owner.controller and owner.could_exist), None),
        _MIRROR in marks,
        _seconds(meta.deletion_timestamp),
        intern(_queue(meta)),
    )


def _queue(meta: PodMeta) -> str:
    queue, kind = meta.labels.get(QUEUE_NAME_LABEL), meta.annotations.get(POD_SUSPENDING_PARENT)
    shown = f"queue {queue}" if queue else f"its {kind}" if kind else ""
    return _name(shown)


def _name(text: str) -> str:
    return text if len(text) <= _LONGEST else ""


def _seconds(text: str | None) -> float:
    try:
        return parse_time(text) or 0.0
    except ValueError:
        return 0.0
