"""A pod on its own, or a group of pods, as one thing that is admitted: its shape, its state, what is wrong with it. Pure.

Members of a group share the name, the queue and the total count. Each role is a pod set, named by its hash; with fast
admission the first member stands for all. A member that failed, or that goes and takes up no node (any more), does not
count: another one may come in its place. `admission/controllers/pods` decides with it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from admission.integrations.base import JobResult
from admission.integrations.pod import QueuedPod
from api import names
from api.errors import InvalidObject
from api.requests import parse_int32, topology_request
from api.workloads import PodSet, ReclaimablePod

MAIN: Final = "main"
MAX_COUNT: Final = 2**31 - 1
_INDEX: Final = re.compile(r"0*[0-9]{1,10}")


class TooFewPods(InvalidObject):
    """The group is not complete yet (any more)."""

    def __init__(self, group: str, found: int, total: int) -> None:
        super().__init__("metadata.labels", found, f"{total} pods that may run", group)
        self.group = group

    def __str__(self) -> str:
        return f"'{self.group}' group has fewer runnable pods than expected"


class UnlikePods(InvalidObject):
    """Members of a group contradict each other, or one carries what cannot be read: no Workload can be made of them."""


@dataclass(frozen=True)
class PodUnit:
    """`pods` in the order of their names, never empty; `group` is empty for a pod on its own."""

    namespace: str
    group: str
    pods: tuple[QueuedPod, ...]

    @classmethod
    def of(cls, pods: Iterable[QueuedPod]) -> PodUnit:
        """The unit that these pods are; a pod on its own, or all members of one group."""
        ordered = tuple(sorted(pods, key=lambda pod: pod.metadata.name))
        return cls(ordered[0].metadata.namespace, ordered[0].group, ordered)

    @property
    def first(self) -> QueuedPod:
        """The member that speaks for all."""
        return self.pods[0]

    @cached_property
    def counting(self) -> tuple[QueuedPod, ...]:
        """The members that run, may come to run, or have succeeded."""
        return tuple(pod for pod in self.pods if pod.counts)

    def as_job(self) -> dict[str, Any]:
        """The first member in the form in which owners of Workloads are read."""
        meta = self.first.metadata
        found = {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid}
        return {"metadata": {**found, "labels": self.first.labels, "annotations": self.first.annotations}}

    # ---- shape

    @cached_property
    def total(self) -> int:
        """How many pods the group has. Raises UnlikePods where that cannot be read, or members disagree."""
        if not self.group:
            return 1
        said = {pod.annotations.get(names.POD_GROUP_TOTAL_COUNT) for pod in self.counting or self.pods}
        where = f"metadata.annotations[{names.POD_GROUP_TOTAL_COUNT}]"
        if len(said) > 1:
            raise UnlikePods(where, sorted(map(str, said)), "the same in all pods of the group", self.group)
        text = said.pop()
        count = parse_int32(text or "")
        if count is None or count < 1:
            raise UnlikePods(where, text, f"a number from 1 to {MAX_COUNT}", self.group)
        return count

    @property
    def serving(self) -> bool:
        """Whether its pods run for ever: no success ends it, and nothing is given back early."""
        return self._says(names.POD_GROUP_SERVING, "true")

    @property
    def fast(self) -> bool:
        """Whether the first member stands for all, so that the others need not be created first."""
        return bool(self.group) and self._says(names.POD_GROUP_FAST_ADMISSION, "true")

    @property
    def retriable(self) -> bool:
        """Whether a member may come in the place of one that failed."""
        return bool(self.group) and not self._says(names.RETRIABLE_IN_GROUP, "false")

    def _says(self, annotation: str, value: str) -> bool:
        return any(pod.annotations.get(annotation) == value for pod in self.pods)

    def pod_sets(self, *, topology: bool = True) -> tuple[PodSet, ...]:
        """What is asked for, by role. Raises TooFewPods, UnlikePods, InvalidObject."""
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
        if pod.spec is None:
            raise UnlikePods("spec", name, "a pod of each role that is still gated", self.group or pod.key)
        fields: dict[str, Any] = {"name": name, "count": count}
        fields["template"] = {"metadata": {}, "spec": pod.read_spec()}
        if topology:
            index = names.POD_GROUP_INDEX_LABEL
            fields["topology_request"] = topology_request(self._asked(pod), pod_index_label=index)
        return PodSet(**fields)

    def _asked(self, pod: QueuedPod) -> Mapping[str, str]:
        """The annotations that say where the pods of its role are to go."""
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
        """The group's own, where it has one that goes before the classes of its pods."""
        return None

    # ---- state

    @property
    def suspended(self) -> bool:
        """Whether no pod may run."""
        return not any(pod.started for pod in self.pods)

    @property
    def running(self) -> bool:
        """Whether a pod takes up a node."""
        return any(pod.running for pod in self.pods)

    def finished(self) -> JobResult | None:
        """How it ended; None while it has not."""
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
        return JobResult(f"Pods succeeded: {succeeded}/{total}.", True) if over or succeeded >= total else None

    def ready(self, wanted: int) -> bool:
        """Whether all pods are ready or have succeeded, also those of `wanted` that are still to come (again)."""
        return len(self.counting) >= max(wanted, 1) and all(pod.ready or pod.succeeded for pod in self.counting)

    def reclaimable(self) -> tuple[ReclaimablePod, ...]:
        """Pods of each role that are done and need their quota no more."""
        if not self.group or self.serving:
            return ()
        done = Counter(pod.role for pod in self.pods if pod.succeeded)
        return tuple(ReclaimablePod(name=role, count=done[role]) for role in sorted(done))


@dataclass(frozen=True, slots=True)
class SortedMembers:
    """The members against a Workload's pod sets: which stay, which are too many, whose places are taken, which fit nowhere."""

    kept: tuple[QueuedPod, ...]
    excess: tuple[QueuedPod, ...]
    replaced: tuple[QueuedPod, ...]
    strange: tuple[QueuedPod, ...]


def sort_out(pods: Sequence[QueuedPod], counts: Mapping[str, int]) -> SortedMembers:
    """The members by role against `counts`. Too many are the youngest of those that do not run yet."""
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
        active.sort(key=_age)
        kept += active[:most]
        excess += active[most:]
        inactive.sort(key=lambda pod: (pod.held, pod.last_active, pod.metadata.name))
        taken = max(0, min(len(inactive), len(inactive) + len(active) - most))
        replaced += inactive[:taken]
        kept += inactive[taken:]
    kept.sort(key=lambda pod: pod.metadata.name)
    return SortedMembers(tuple(kept), tuple(excess), tuple(replaced), tuple(strange))


def youngest(pods: Iterable[QueuedPod], most: int) -> list[QueuedPod]:
    """Those beyond the first `most`, by age."""
    return sorted(pods, key=_age)[most:]


def _age(pod: QueuedPod) -> tuple[bool, float, str]:
    return pod.gated, pod.created, pod.metadata.name
