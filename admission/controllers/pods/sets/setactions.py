"""Actions of a set's plan: on Workloads, and patches that label pods with their group. Pure; part of `setplan`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from admission.controllers.state.actions import Planned, PlannedEvent, WorkloadAction
from admission.integrations.pods.pod import QueuedPod
from admission.integrations.sets.replica_groups import PodMembership
from api import names

_LABEL_LENGTH: Final = 63


@dataclass(frozen=True, slots=True)
class JoinPod:
    """A strategic merge patch that labels a gated pod with its group and pod set."""

    pod: QueuedPod
    patch: dict[str, Any]
    events: tuple[PlannedEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class SetPlan(Planned[JoinPod | WorkloadAction]):
    """The due actions for a set: first those on Workloads, then all pods together."""

    def workloads(self) -> list[WorkloadAction]:
        """Returns the actions on Workloads, in order."""
        return [action for action in self.actions if not isinstance(action, JoinPod)]

    def joins(self) -> list[JoinPod]:
        """Returns the pods to label with their group."""
        return [action for action in self.actions if isinstance(action, JoinPod)]


NOTHING: Final = SetPlan()


def following(pod: QueuedPod, queue: str | None) -> JoinPod:
    """Returns the patch that labels a pod with its set's present queue."""
    return JoinPod(pod, {"metadata": {"uid": pod.metadata.uid, "labels": {names.QUEUE_NAME_LABEL: queue}}})


def joining(pod: QueuedPod, membership: PodMembership, total: int, labels: Mapping[str, str]) -> JoinPod:
    """Returns the patch that labels a gated pod of a set with its group, and with `labels`.

    `total` is the number of pods of its group.
    """
    annotations = {
        names.POD_GROUP_NAME: membership.workload,
        names.PREBUILT_WORKLOAD: membership.workload,
        names.POD_GROUP_TOTAL_COUNT: str(total),
        names.POD_GROUP_FAST_ADMISSION: "true",
        names.POD_GROUP_SERVING: "true",
        names.ROLE_HASH: membership.pod_set,
        **membership.annotations,
    }
    added = dict(labels)
    if len(membership.workload) <= _LABEL_LENGTH:
        added |= {names.POD_GROUP_NAME: membership.workload, names.PREBUILT_WORKLOAD: membership.workload}
    return JoinPod(pod, {"metadata": {"uid": pod.metadata.uid, "annotations": annotations, "labels": added}})
