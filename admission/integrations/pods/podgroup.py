"""A single pod or a group of pods as one unit of admission: its pod sets, its state and its errors. Pure.

Members of a group share group name, queue and total count. Each role is a pod set named by its hash; with fast admission the
first member stands for all. A failed member, or a deleted member that occupies no node, does not count and may be replaced.
`admission/controllers/pods` uses it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from admission.integrations.base import JobResult
from admission.integrations.pods.pod import QueuedPod, common_labels
from api import names
from api.annotations.requests import parse_int32, topology_request
from api.errors import InvalidObject
from api.workloads import PodSet, ReclaimablePod

MAIN: Final = "main"
MAX_COUNT: Final = 2**31 - 1
_SHOWN: Final = 3
_INDEX: Final = re.compile(r"0*[0-9]{1,10}")


class TooFewPods(InvalidObject):
    """The group is incomplete."""

    def __init__(self, group: str, pods: int, total: int) -> None:
        super().__init__("metadata.labels", pods, f"{total} pods that may run", group)
        self.group = group

    def __str__(self) -> str:
        return f"'{self.group}' group has fewer runnable pods than expected"


class UnlikePods(InvalidObject):
    """Members of a group contradict each other, or one has an unreadable field: no Workload can be composed from them."""


@dataclass(frozen=True)
class PodUnit:
    """A single pod or a group."""

    namespace: str
    group: str
    """Empty for a single pod."""
    pods: tuple[QueuedPod, ...]
    """Sorted by name, never empty."""

    @classmethod
    def of(cls, pods: Iterable[QueuedPod]) -> PodUnit:
        """Returns the unit of a single pod or of all members of one group."""
        ordered = tuple(sorted(pods, key=lambda pod: pod.metadata.name))
        return cls(ordered[0].metadata.namespace, ordered[0].group, ordered)

    @property
    def first(self) -> QueuedPod:
        """The member that represents the group."""
        return self.pods[0]

    @cached_property
    def counting(self) -> tuple[QueuedPod, ...]:
        """The members that run, may come to run, or have succeeded."""
        return tuple(pod for pod in self.pods if pod.counts)

    def as_job(self) -> dict[str, Any]:
        """Returns the first member in the form of a job that owns a Workload."""
        meta = self.first.metadata
        identity = {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid}
        return {"metadata": {**identity, "labels": self.first.labels, "annotations": self.first.annotations}}

    # ---- shape

    @cached_property
    def total(self) -> int:
        """The group's number of pods. Raises UnlikePods if it is unreadable or members disagree."""
        if not self.group:
            return 1
        counts = {pod.annotations.get(names.POD_GROUP_TOTAL_COUNT) for pod in self.counting or self.pods}
        where = f"metadata.annotations[{names.POD_GROUP_TOTAL_COUNT}]"
        if len(counts) > 1:
            raise UnlikePods(where, sorted(map(str, counts)), "the same in all pods of the group", self.group)
        text = counts.pop()
        count = parse_int32(text or "")
        if count is None or count < 1:
            raise UnlikePods(where, text, f"a number from 1 to {MAX_COUNT}", self.group)
        return count

    @property
    def serving(self) -> bool:
        """Reports whether the pods run indefinitely: success does not finish the group, and no quota is released early."""
        return self._has_annotation(names.POD_GROUP_SERVING, "true")

    @property
    def fast(self) -> bool:
        """Reports whether the first member stands for all, so that admission does not wait for the others to be created."""
        return bool(self.group) and self._has_annotation(names.POD_GROUP_FAST_ADMISSION, "true")

    @property
    def retriable(self) -> bool:
        """Reports whether a failed member may be replaced."""
        return bool(self.group) and not self._has_annotation(names.RETRIABLE_IN_GROUP, "false")

    def _has_annotation(self, annotation: str, value: str) -> bool:
        return any(pod.annotations.get(annotation) == value for pod in self.pods)

    def pod_sets(self, *, topology: bool = True) -> tuple[PodSet, ...]:
        """Returns one pod set per role. Raises TooFewPods, UnlikePods, InvalidObject."""
        if not self.group:
            return (self._pod_set(MAIN, self.first, 1, topology),)
        total, counting = self.total, sorted(self.counting, key=_age)
        self._check_likeness()
        if self.fast and counting:
            pod = min(counting, key=lambda pod: pod.spec is None)
            return (self._pod_set(pod.role, pod, total, topology),)
        if len(counting) < total:
            raise TooFewPods(self.group, len(counting), total)
        counts = Counter(pod.role for pod in counting[:total])
        examples: dict[str, QueuedPod] = {}
        for pod in counting[:total]:
            known = examples.get(pod.role)
            if known is None or (known.spec is None and pod.spec is not None):
                examples[pod.role] = pod
        return tuple(self._pod_set(role, examples[role], counts[role], topology) for role in sorted(counts))

    def _pod_set(self, name: str, pod: QueuedPod, count: int, topology: bool) -> PodSet:
        if self.ending and pod.spec is None:
            pod = replace(pod, spec=pod.last_spec)
        if pod.spec is None:
            raise UnlikePods("spec", name, "a pod of each role that is still gated", self.group or pod.key)
        fields: dict[str, Any] = {"name": name, "count": count}
        labels = self.labels_of(name)
        fields["template"] = {"metadata": {"labels": labels} if labels else {}, "spec": pod.read_spec()}
        if topology:
            index = names.POD_GROUP_INDEX_LABEL
            fields["topology_request"] = topology_request(self._requested(pod), pod_index_label=index)
        return PodSet(**fields)

    def labels_of(self, name: str) -> dict[str, str]:
        """Returns the labels that all waiting pods of a pod set have, by which terms of pods select them.

        Kueue writes no labels here, and compares none. Raises UnlikePods if the pods' own terms tell the pods apart: one pod
        set cannot state where each of them may go.
        """
        pods = [pod for pod in self.pods if (pod.spec or pod.last_spec) and (not self.group or pod.role == name)]
        common = common_labels(pods)
        differing = {key for pod in pods for key in pod.own_labels} - common.keys()
        if differing and (named := differing & pods[0].keys_of_terms()):
            key = min(named)
            values = sorted({pod.own_labels.get(key, "") for pod in pods})
            rule = "the same in all pods of one role, because their own affinity or spread constraints select by it"
            raise UnlikePods(f"metadata.labels[{key}]", ", ".join(values[:_SHOWN]), rule, self.group)
        return common

    def _requested(self, pod: QueuedPod) -> Mapping[str, str]:
        """Returns the placement annotations of the pod's role."""
        return pod.annotations

    def _check_likeness(self) -> None:
        queues = {pod.labels.get(names.QUEUE_NAME_LABEL, "") for pod in self.counting}
        if len(queues) > 1:
            where = f"metadata.labels[{names.QUEUE_NAME_LABEL}]"
            raise UnlikePods(where, sorted(queues), "the same in all pods of the group", self.group)
        for pod in self.counting:
            index = pod.labels.get(names.POD_GROUP_INDEX_LABEL)
            if index is not None and not _INDEX.fullmatch(index):
                where = f"metadata.labels[{names.POD_GROUP_INDEX_LABEL}]"
                raise UnlikePods(where, index, "an invalid unsigned integer: digits are allowed", pod.key)
            if index is not None and int(index) >= self.total:
                where = f"metadata.labels[{names.POD_GROUP_INDEX_LABEL}]"
                allowed = f"validation error: must be less than the group's total count, {self.total}"
                raise UnlikePods(where, index, allowed, pod.key)

    @property
    def priority(self) -> int | None:
        """The priority of the group itself, which overrides its pods' priority classes, or None."""
        return None

    # ---- state

    @property
    def suspended(self) -> bool:
        """Reports whether no pod may run."""
        return not any(pod.started for pod in self.pods)

    @property
    def running(self) -> bool:
        """Reports whether a pod occupies a node."""
        return any(pod.running for pod in self.pods)

    @property
    def ending(self) -> bool:
        """Reports whether every member of the group is being deleted, and no deletion is still to be requested."""
        return bool(self.group) and all(pod.deleted for pod in self.pods)

    def finished(self) -> JobResult | None:
        """Returns the outcome, or None while the unit has not finished."""
        if not self.group:
            return JobResult(self.first.message, self.first.succeeded) if self.first.terminated else None
        if self.serving:
            return None
        try:
            total = self.total
        except UnlikePods:
            return None
        succeeded = sum(pod.succeeded for pod in self.pods)
        over = not self.retriable and all(pod.terminated for pod in self.pods)
        over = over or (succeeded >= total and not self.running)
        return JobResult(f"Pods succeeded: {succeeded}/{total}.", True) if over else None

    def ready(self, wanted: int) -> bool:
        """Reports whether at least `wanted` pods count and every one of them is ready or has succeeded."""
        return len(self.counting) >= max(wanted, 1) and all(pod.ready or pod.succeeded for pod in self.counting)

    def reclaimable(self) -> tuple[ReclaimablePod, ...]:
        """Returns the pods of each role that have succeeded and no longer need quota."""
        if not self.group or self.serving:
            return ()
        done = Counter(pod.role for pod in self.pods if pod.succeeded)
        return tuple(ReclaimablePod(name=role, count=done[role]) for role in sorted(done))


@dataclass(frozen=True, slots=True)
class SortedMembers:
    """A group's members compared with its Workload's pod sets: members to keep, surplus members, replaced members, and members
    of a role that has no pod set.
    """

    kept: tuple[QueuedPod, ...]
    excess: tuple[QueuedPod, ...]
    replaced: tuple[QueuedPod, ...]
    strange: tuple[QueuedPod, ...]


def sort_out(pods: Sequence[QueuedPod], counts: Mapping[str, int]) -> SortedMembers:
    """Compares members with `counts`, the number of pods per role; the youngest pods that do not run yet are surplus.

    Before these come pods of a StatefulSet that it does not want any more: with OrderedReady it deletes them only once the
    others run. A gated pod that will take the place of a pod that is still terminating is neither kept nor surplus: Kueue
    deletes it, and an owner that replaces a lost pod at once would have none.
    """
    by_role: dict[str, tuple[list[QueuedPod], list[QueuedPod]]] = {role: ([], []) for role in counts}
    strange: list[QueuedPod] = []
    for pod in pods:
        if pod.role in by_role:
            by_role[pod.role][not pod.counts].append(pod)
        else:
            strange.append(pod)
    kept: list[QueuedPod] = []
    excess: list[QueuedPod] = []
    replaced: list[QueuedPod] = []
    for role, (active, inactive) in by_role.items():
        most = counts[role]
        active.sort(key=lambda pod: (pod.ordinal is not None and pod.ordinal >= most, *_age(pod)))
        kept += active[:most]
        going = sum(pod.deleted and not pod.succeeded for pod in active[:most])
        for pod in active[most:]:
            if going and pod.gated and not pod.deleted:
                going -= 1
            else:
                excess.append(pod)
        inactive.sort(key=lambda pod: (pod.held, pod.last_active, pod.metadata.name))
        taken = max(0, min(len(inactive), len(inactive) + len(active) - most))
        replaced += inactive[:taken]
        kept += inactive[taken:]
    kept.sort(key=lambda pod: pod.metadata.name)
    return SortedMembers(tuple(kept), tuple(excess), tuple(replaced), tuple(strange))


def youngest(pods: Iterable[QueuedPod], most: int) -> list[QueuedPod]:
    """Returns all but the `most` oldest pods."""
    return sorted(pods, key=_age)[most:]


def _age(pod: QueuedPod) -> tuple[bool, float, str]:
    return pod.gated, pod.created, pod.metadata.name
