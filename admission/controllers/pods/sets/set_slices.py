"""Resizes a set while it runs, by means of Workload slices. Pure; part of `setplan`.

It works like that of a job (jobs/plan/job_slices.py): a further Workload requests all pods and replaces the one that has quota,
whose counts decrease when the set shrinks. The set's pods always name the first slice as their group. Pods beyond the admitted
number wait at the admission gate, which `startable` does not open for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from admission.controllers.jobs.plan.finish import finish, let_go
from admission.controllers.jobs.plan.job_slices import Slices, counts_changed, replacement_message, shrunk, slices_of
from admission.controllers.jobs.plan.pod_counts import Counts, admitted_counts, counts_of, lacks_pods, with_counts
from admission.controllers.pods.sets.setactions import SetPlan
from admission.controllers.state.actions import DeleteWorkload, PatchWorkload, PlannedEvent
from admission.controllers.watch.slices import first_key
from admission.integrations.pods.pod import QueuedPod, common_labels
from api import names
from api.meta import split_key
from api.workloads import Workload

_NOT_COPIED: Final = (
    names.SET_NAME,
    names.POD_SUSPENDING_PARENT,
    names.ROLE_HASH,
    names.POD_GROUP_FAST_ADMISSION,
    names.POD_GROUP_SERVING,
    names.POD_GROUP_INDEX_SOURCE,
)
"""Annotations that the webhook writes on pods and that request nothing."""


@dataclass(frozen=True, slots=True)
class NextNames:
    """Names of the next slice: `usual`, and `other` if the former is taken."""

    usual: str
    other: str


def chain_of(workload: Workload) -> str:
    """Returns the name of the Workload's first slice, which is the group of the set's pods."""
    return split_key(first_key(workload))[1]


def acting(workloads: Sequence[Workload]) -> Workload | None:
    """Returns the slice that the set's pods follow: the one with quota, else the one that waits for it, or None."""
    slices = slices_of(workloads)
    return slices.current or next(iter(slices.others), None)


def settled(slices: Slices, now: float) -> SetPlan:
    """Plans for superseded slices: replaced ones are Finished and released, stale ones deleted."""
    made = SetPlan(tuple(action for workload in slices.over for action in let_go(workload)))
    for old, new in slices.replaced:
        reason, message = names.FinishedReason.WORKLOAD_SLICE_REPLACED, replacement_message(new)
        made = made.then(finish(old, reason, message, now, PlannedEvent(reason, message)))
    return made.then(*(action for workload in slices.stale for action in dropped(workload)))


def resized(current: Workload, following: Workload | None, wanted: Counts) -> SetPlan | None:
    """Shrinks the slice with quota and updates the next slice; None if both match the set.

    The next slice is deleted or updated first: it would start on what the shrunk slice releases.
    """
    actions: list[PatchWorkload | DeleteWorkload] = []
    if following is not None and not lacks_pods(current, wanted):
        actions += dropped(following)
    elif following is not None:
        requested = with_counts(current.spec.pod_sets, wanted)
        if counts_of(following.spec.pod_sets) != counts_of(requested):
            patch = {"spec": {"podSets": [pod_set.to_wire() for pod_set in requested]}}
            actions.append(counts_changed(following, patch))
    if (less := shrunk(current, wanted)) is not None:
        actions.append(counts_changed(current, less))
    return SetPlan(tuple(actions)) if actions else None


def example_of(pods: Sequence[QueuedPod]) -> dict[str, Any]:
    """Returns a template of the first of these pods, with what affects its requests and the labels that all of them have."""
    pod, common = pods[0], common_labels(pods)
    annotations = {key: value for key, value in pod.annotations.items() if key not in _NOT_COPIED}
    labels = {"labels": common} if common else {}
    return {"metadata": {"annotations": annotations, **labels}, "spec": pod.read_spec()}


def startable(waiting: Iterable[QueuedPod], pods: Iterable[QueuedPod], workload: Workload) -> list[QueuedPod]:
    """Returns the gated pods that may start: as many as the slice was admitted for beyond started pods, the oldest first."""
    room = admitted_counts(workload)
    for pod in pods:
        if pod.started and pod.counts and pod.role in room:
            room[pod.role] -= 1
    opened: list[QueuedPod] = []
    for pod in sorted(waiting, key=lambda pod: (pod.created, pod.metadata.name)):
        if pod.lasting and room.get(pod.role, 0) > 0:
            room[pod.role] -= 1
            opened.append(pod)
    return opened


def dropped(workload: Workload) -> Iterator[PatchWorkload | DeleteWorkload]:
    """Releases and deletes the Workload."""
    yield from let_go(workload)
    if not workload.metadata.deletion_timestamp:
        event = PlannedEvent("DeletedWorkload", f"Deleted not matching Workload: {workload.key}")
        yield DeleteWorkload(workload, (event,))
