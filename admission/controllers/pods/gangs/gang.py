"""The terms of a gang: its minimum, the pods that count toward it, the gangs that start with it. Pure; part of `gangs`.

The pods state the terms (annotation GANG_TERMS, written by the webhook), and so does the PodGroup of the gang's name, which
takes precedence: so an operator can change the minimum while pods wait. A Sakkara group's terms come from its ConfigMap
(sakkara_terms.py).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from admission.controllers.state.timeouts import RequeueBackoff
from admission.integrations.base import JobResult
from admission.integrations.pods.gang import MatchPolicy, PodGang, from_text, groups_of, policy_of
from admission.integrations.pods.gangplacement import alone, check_likeness, effective, placement_of, together
from admission.integrations.pods.pod import QueuedPod
from admission.integrations.pods.podgroup import PodUnit, SortedMembers, UnlikePods
from api import names
from api.groups import PodGroup
from api.meta import object_key, parse_time, rfc3339
from api.sakkara import SakkaraGroup
from api.workloads import PodSet, RequeueState

BACKOFF: Final = RequeueBackoff(base=10.0, longest=600.0)
"""The backoff of a gang whose pods were not bound in time."""
DEFAULT_SCHEDULE_TIMEOUT: Final = 10.0
"""Seconds for a gang to be bound, if it names neither a schedule timeout nor a queue."""


@dataclass(frozen=True, slots=True)
class ExactGang:
    """A Sakkara group's terms for its gang: an exact number of pods, placed as its ConfigMap requires."""

    group: SakkaraGroup
    config_map: str | None = None
    """The ConfigMap's name; None if a PodGroup replaces it."""
    by_priority: bool = True
    """Whether the group's own priority applies instead of its pods' classes."""


@dataclass(frozen=True, slots=True)
class GangTerms:
    """The terms of a gang."""

    name: str
    minimum: int | None
    """None if nothing states it."""
    policy: MatchPolicy = MatchPolicy.WAITING_AND_RUNNING
    groups: tuple[str, ...] = ()
    schedule_timeout: float | None = None
    """In seconds from the removal of the gates; None for none."""
    uid: str = ""
    """Orders gangs that are equally old."""
    since: float = 0.0
    """Orders gangs in their queue (epoch seconds)."""
    placement: Mapping[str, str] = field(default_factory=dict)
    """The PodGroup's placement annotations."""
    profile: str | None = None
    """The placement profile that the PodGroup names."""
    exact: ExactGang | None = None
    """Set for a group with an exact number of pods."""
    lacking: str = ""
    """What is missing if nothing states the minimum, other than a PodGroup."""
    stops: RequeueState | None = None
    """How often too few pods were bound in time, and the end of the backoff."""

    def annotations(self) -> dict[str, str]:
        """Returns the annotations with which the gang's Workloads state these terms to the engine (convert_workloads.py)."""
        annotations = {names.GANG: self.name, names.GANG_UID: self.uid, names.GANG_SINCE: rfc3339(self.since)}
        if self.minimum is not None and self.exact is None:
            annotations[names.GANG_LEAST] = str(self.minimum)
        if self.groups:
            annotations[names.GANG_GROUP] = json.dumps(self.groups, separators=(",", ":"))
        if self.exact is not None and self.exact.config_map is not None:
            annotations[names.SAKKARA_GROUP_ANNOTATION] = self.exact.config_map
        if self.profile is not None:
            annotations[names.PLACEMENT_PROFILE] = self.profile
        return annotations


def stopped(terms: GangTerms, now: float) -> tuple[int, float]:
    """Returns how often too few pods were bound in time, and the remaining seconds of backoff; (0, 0.0) if long ago.

    Users who may write a PodGroup's status can write any time there, so a time beyond the longest backoff is ignored.
    """
    state = terms.stops
    at = parse_time(state.requeue_at) if state is not None else None
    if state is None or at is None or not now - 2 * BACKOFF.longest < at <= now + 2 * BACKOFF.longest:
        return 0, 0.0
    return state.count or 0, max(0.0, at - now)


def backoff_message(terms: GangTerms, now: float) -> str | None:
    """Returns why a gang without a Workload must not get one yet, or None."""
    times, left = stopped(terms, now)
    if not left or terms.stops is None:
        return None
    return f"too few pods were bound in time, {times} times so far: the next try comes at {terms.stops.requeue_at}"


def is_gang(pods: Iterable[QueuedPod]) -> bool:
    """Reports whether these pods form a gang of a dialect other than Kueue's."""
    return any(names.GANG_TERMS in pod.annotations for pod in pods)


def terms_of(pods: Sequence[QueuedPod], pod_group: PodGroup | None) -> GangTerms:
    """Returns the gang's terms. Raises UnlikePods if pods contradict each other."""
    examples: dict[str | None, QueuedPod] = {}
    for pod in pods:
        examples.setdefault(pod.annotations.get(names.GANG_TERMS), pod)
    gangs = [(pod, gang) for text, pod in examples.items() if (gang := from_text(text)) is not None]
    first = min(pods, key=lambda pod: (pod.created, pod.metadata.name))
    name = first.group
    _check_likeness(name, gangs)
    gang = next((gang for _, gang in gangs), PodGang(name))
    key = object_key(first.metadata.namespace, name)
    minimum, groups, policy = gang.minimum, gang.groups, gang.policy
    group_annotations = pod_group.metadata.annotations if pod_group is not None else {}
    if pod_group is not None:
        wire = pod_group.metadata.to_wire()
        minimum = pod_group.spec.min_member or minimum
        groups = groups_of(key, wire)[0] or groups
        policy = policy_of(wire) or policy
    return GangTerms(
        name=name,
        minimum=minimum,
        policy=policy,
        groups=groups,
        schedule_timeout=_schedule_timeout(first, pod_group),
        # Do not use the uid of a PodGroup that Stowage created: it adds no information, and the change from the key to the uid
        # would update every waiting Workload.
        uid=key if pod_group is None or _is_made(pod_group) else pod_group.metadata.uid or key,
        since=first.created,
        placement=placement_of(group_annotations),
        profile=None
        if names.PLACEMENT_PROFILE in first.annotations
        else group_annotations.get(names.PLACEMENT_PROFILE),
    )


def _check_likeness(name: str, gangs: Sequence[tuple[QueuedPod, PodGang]]) -> None:
    for part in ("minimum", "groups", "policy"):
        by_value = {getattr(gang, part): pod.metadata.name for pod, gang in gangs}
        if len(by_value) > 1:
            given = ", ".join(f"{value} in pod {pod}" for value, pod in by_value.items())
            raise UnlikePods(f"{part} of the gang", given, "the same in all pods", name)


def _schedule_timeout(pod: QueuedPod, pod_group: PodGroup | None) -> float | None:
    if pod_group is not None and pod_group.spec.schedule_timeout_seconds is not None:
        return float(pod_group.spec.schedule_timeout_seconds)
    if pod.labels.get(names.QUEUE_NAME_LABEL, names.GANG_QUEUE) != names.GANG_QUEUE:
        return None
    return DEFAULT_SCHEDULE_TIMEOUT if pod_group is None or _is_made(pod_group) else None


def _is_made(pod_group: PodGroup) -> bool:
    """Reports whether Stowage created the PodGroup from labels of pods (podgroups.py)."""
    return names.GANG_MADE in pod_group.metadata.labels


def counted(pods: Iterable[QueuedPod], policy: MatchPolicy) -> int:
    """Counts the pods that count toward the minimum."""
    present = [pod for pod in pods if pod.counts]
    waiting = sum(pod.lasting and not pod.succeeded and not pod.running for pod in present)
    running, succeeded = sum(pod.running for pod in present), sum(pod.succeeded for pod in present)
    match policy:
        case MatchPolicy.ONLY_WAITING | MatchPolicy.ONCE_SATISFIED:
            return waiting
        case MatchPolicy.WAITING_AND_RUNNING:
            return waiting + running
        case MatchPolicy.WAITING_RUNNING_SUCCEED:
            return waiting + running + succeeded


def bound_places(members: SortedMembers, joined: Iterable[QueuedPod]) -> int:
    """Counts how many members of the gang were ever bound; `joined` are late joiners, each with a Workload of its own.

    A lost member keeps its node name, and Stowage's finalizer keeps the member until the controller releases it. It counts
    while its replacement is gated: the reconcile that removed the replacement's gate had already counted the lost member.
    """
    lost = Counter(pod.role for pod in members.replaced if pod.bound)
    successors = Counter(pod.role for pod in members.kept if pod.gated)
    return sum(pod.bound or pod.succeeded for pod in (*members.kept, *joined)) + (lost & successors).total()


def shortage(pods: int, terms: GangTerms) -> str | None:
    """Returns why a gang with `pods` pods waits, or None if it has enough."""
    if terms.minimum is None:
        return terms.lacking or f"no PodGroup {terms.name} says how many pods the gang needs, and no pod does"
    return f"{pods} of {terms.minimum} pods exist" if pods < terms.minimum else None


@dataclass(frozen=True)
class GangUnit(PodUnit):
    """A gang as a group of exactly its present pods, finished once none of them is left to run."""

    minimum: int = 1
    placement: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_gang(cls, unit: PodUnit, terms: GangTerms) -> GangUnit:
        """Returns the unit under these terms."""
        return cls(unit.namespace, unit.group, unit.pods, terms.minimum or 1, terms.placement)

    def only(self, pods: Sequence[QueuedPod]) -> GangUnit:
        """Returns the unit with only these pods."""
        return replace(self, pods=tuple(pods))

    @cached_property
    def total(self) -> int:
        """The number of present pods."""
        return len(self.counting)

    @property
    def fast(self) -> bool:
        """Always False: a gang waits for its pods."""
        return False

    def pod_sets(self, *, topology: bool = True) -> tuple[PodSet, ...]:
        """Returns one pod set per role, with the PodGroup's placement merged in. Raises like PodUnit.pod_sets, and
        InvalidObject.
        """
        check_likeness(self.counting, self.group)
        pod_sets = super().pod_sets(topology=topology)
        if not topology:
            return pod_sets
        own = {pod.role: pod.annotations for pod in reversed(self.pods)}
        return together(pod_sets, own, self.placement, object_key(self.namespace, self.group))

    def _requested(self, pod: QueuedPod) -> Mapping[str, str]:
        return effective(pod.annotations, self.placement)

    def ready(self, wanted: int) -> bool:
        """Reports readiness as any unit does, except that the gang needs no more than its minimum of pods that are gone."""
        return super().ready(min(wanted, self.minimum))

    def finished(self) -> JobResult | None:
        """Returns the outcome once all pods have terminated: success if at least the minimum succeeded."""
        if not all(pod.terminated for pod in self.pods):
            return None
        succeeded = sum(pod.succeeded for pod in self.pods)
        if succeeded >= self.minimum:
            return JobResult(f"Pods succeeded: {succeeded}/{len(self.pods)}.", True)
        return JobResult(f"Pods failed: {len(self.pods) - succeeded}/{len(self.pods)}.", False)


@dataclass(frozen=True)
class LateUnit(PodUnit):
    """A pod that joins a gang late, as a unit of its own with the gang's placement for a single pod."""

    placement: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_pod(cls, pod: QueuedPod, terms: GangTerms) -> LateUnit:
        """Returns the unit under the gang's terms."""
        return cls(pod.metadata.namespace, "", (pod,), terms.placement)

    def _requested(self, pod: QueuedPod) -> Mapping[str, str]:
        return alone(effective(pod.annotations, self.placement))
