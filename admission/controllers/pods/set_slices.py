"""A set that grows and shrinks while it runs (annotation `elastic-job`): its slices. Pure; part of `setplan`.

As the slices of an elastic job (jobs/elastic.py): a further Workload asks for all pods and takes the place of the one that has
quota, of which the counts go down when the set shrinks. The set's pods name the first slice as their group for ever. Pods
beyond those that were admitted wait at the admission gate, which `startable` opens for no more of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from admission.controllers.actions import DeleteWorkload, PatchWorkload, PlannedEvent
from admission.controllers.jobs.elastic import (
    Counts,
    Slices,
    admitted_counts,
    counts_of,
    lacks_pods,
    replacement_message,
    shrunk,
    slices_of,
    with_counts,
)
from admission.controllers.jobs.finish import finish, let_go
from admission.controllers.pods.setactions import SetPlan
from admission.controllers.slices import first_key
from admission.integrations.pod import QueuedPod
from api import names
from api.meta import split_key
from api.workloads import Workload

_TOLD: Final = (
    names.SET_NAME,
    names.POD_SUSPENDING_PARENT,
    names.ROLE_HASH,
    names.POD_GROUP_FAST_ADMISSION,
    names.POD_GROUP_SERVING,
    names.POD_GROUP_INDEX_SOURCE,
)
"""Annotations that the webhook writes on pods: they ask for nothing."""


@dataclass(frozen=True, slots=True)
class NextNames:
    """Names of the next slice: `usual`, and `other` where that one is taken."""

    usual: str
    other: str


def chain_of(workload: Workload) -> str:
    """The name of its first slice: the group of the set's pods."""
    return split_key(first_key(workload))[1]


def is_elastic(workload: Workload) -> bool:
    """Whether it is a slice."""
    return workload.metadata.annotations.get(names.ELASTIC_JOB) == "true"


def acting(workloads: Sequence[Workload]) -> Workload | None:
    """The slice that the set's pods follow: the one that has quota, else the one that waits for it."""
    slices = slices_of(workloads)
    return slices.current or next(iter(slices.others), None)


def settled(slices: Slices, now: float) -> SetPlan:
    """What was replaced is Finished and let go; what waits in vain goes."""
    made = SetPlan(tuple(action for workload in slices.over for action in let_go(workload)))
    for old, new in slices.replaced:
        reason, message = names.FinishedReason.WORKLOAD_SLICE_REPLACED, replacement_message(new)
        made = made.then(finish(old, reason, message, now, PlannedEvent(reason, message)))
    return made.then(*(action for workload in slices.stale for action in dropped(workload)))


def resized(current: Workload, following: Workload | None, wanted: Counts) -> SetPlan | None:
    """The slice that has quota shrinks with the set, and the next one follows it; None where they are as the set is."""
    if (patch := shrunk(current, wanted)) is not None:
        return _patched(current, patch)
    if following is None:
        return None
    if not lacks_pods(current, wanted):
        return SetPlan(tuple(dropped(following)))
    asked = with_counts(current.spec.pod_sets, wanted)
    if counts_of(following.spec.pod_sets) == counts_of(asked):
        return None
    return _patched(following, {"spec": {"podSets": [pod_set.to_wire() for pod_set in asked]}})


def _patched(workload: Workload, patch: dict[str, Any]) -> SetPlan:
    event = PlannedEvent("UpdatedWorkload", f"Updated not matching Workload for elastic job: {workload.key}")
    return SetPlan((PatchWorkload(workload, patch, (event,)),))


def example_of(pod: QueuedPod) -> dict[str, Any]:
    """The template that the pod would have been made from, as far as it says what its pods ask for."""
    annotations = {key: value for key, value in pod.annotations.items() if key not in _TOLD}
    return {"metadata": {"annotations": annotations}, "spec": pod.read_spec()}


def startable(waiting: Iterable[QueuedPod], pods: Iterable[QueuedPod], workload: Workload) -> list[QueuedPod]:
    """The gated pods that may start: so many as the slice was admitted for beside those that have, the oldest first."""
    room = admitted_counts(workload)
    for pod in pods:
        if pod.started and pod.counts and pod.role in room:
            room[pod.role] -= 1
    found: list[QueuedPod] = []
    for pod in sorted(waiting, key=lambda pod: (pod.created, pod.metadata.name)):
        if pod.lasting and room.get(pod.role, 0) > 0:
            room[pod.role] -= 1
            found.append(pod)
    return found


def dropped(workload: Workload) -> Iterator[PatchWorkload | DeleteWorkload]:
    """It goes."""
    yield from let_go(workload)
    if not workload.metadata.deletion_timestamp:
        event = PlannedEvent("DeletedWorkload", f"Deleted not matching Workload: {workload.key}")
        yield DeleteWorkload(workload, (event,))
