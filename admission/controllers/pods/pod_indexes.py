"""Indexes of pods and Workloads by unit, and pods whose deletion the informer has not shown yet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, Protocol

from admission.controllers.pods.compose import is_group_workload
from admission.controllers.watch.caches import InformerView
from admission.controllers.watch.slices import first_key, is_slice
from admission.integrations.pods.pod import QueuedPod
from admission.integrations.sets.sets import is_waiting_for_its_group
from api.kube.resources import PODS
from api.meta import object_key
from api.names import COMPONENT_INDEX, PREBUILT_WORKLOAD
from api.workloads import Workload

BY_GROUP: Final = "pod group"
BY_POD: Final = "pod"
BY_PREBUILT: Final = "prebuilt Workload"
BY_SLICE: Final = "slice"
POD, GROUP = "pod", "group"


class PodView(InformerView[QueuedPod], Protocol):
    """The part of the pod informer that is used."""

    def count(self, name: str, value: str) -> int:
        """Returns the number of objects indexed under the value."""

    def observe(self, obj: QueuedPod) -> None:
        """Applies the answer to a write."""


def unit_key(pod: QueuedPod) -> str | None:
    """Returns `pod:ns/name` or `group:ns/name`; None for an unmanaged pod or a pod of a set without its group label."""
    if not pod.ours or is_waiting_for_its_group(pod):
        return None
    group = pod.group
    return f"{GROUP}:{object_key(pod.metadata.namespace, group)}" if group else f"{POD}:{pod.key}"


def group_keys(pod: QueuedPod) -> Iterable[str]:
    """Indexes pods by their group."""
    return (object_key(pod.metadata.namespace, pod.group),) if pod.ours and pod.group else ()


def prebuilt_keys(pod: QueuedPod) -> Iterable[str]:
    """Indexes single pods by the prebuilt Workload that they name."""
    name = pod.annotations.get(PREBUILT_WORKLOAD) or pod.labels.get(PREBUILT_WORKLOAD)
    return (object_key(pod.metadata.namespace, name),) if name and pod.ours and not pod.group else ()


def pod_keys(workload: Workload) -> Iterable[str]:
    """Indexes Workloads by the pod that controls them."""
    owners = workload.metadata.owner_references
    return tuple(
        object_key(workload.metadata.namespace, owner.name)
        for owner in owners
        if owner.controller and (owner.api_version, owner.kind) == (PODS.api_version, PODS.kind)
    )


def slice_keys(workload: Workload) -> Iterable[str]:
    """Indexes the slices of a set by the first Workload of their group."""
    return (first_key(workload),) if COMPONENT_INDEX in workload.metadata.annotations and is_slice(workload) else ()


def keys_of(workload: Workload) -> list[str]:
    """Returns the keys of the units that a Workload may belong to."""
    keys = [f"{POD}:{key}" for key in pod_keys(workload)]
    if not keys and is_group_workload(workload):
        keys.append(f"{GROUP}:{workload.key}")
    return keys


class PodsBeingDeleted:
    """Pods deleted by this process, until the informer shows it."""

    def __init__(self) -> None:
        self._uids: set[str] = set()

    def deleted(self, pod: QueuedPod) -> None:
        """Records that the API server accepted the pod's deletion."""
        self._uids.add(pod.metadata.uid)

    def seen(self, pod: QueuedPod) -> None:
        """Records that the informer shows the pod as deleted or gone."""
        self._uids.discard(pod.metadata.uid)

    def applied(self, pods: Iterable[QueuedPod]) -> list[QueuedPod]:
        """Returns the pods with recorded deletions applied."""
        return [replace(pod, deleted=True) if pod.metadata.uid in self._uids else pod for pod in pods]
