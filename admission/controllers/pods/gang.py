"""What holds for a gang now: its minimum, the pods that count toward it, the gangs that start with it. Pure; part of `gangs`.

The pods say it (annotation GANG_TERMS, written by the webhook), and the PodGroup of the gang's name, which goes first: so an
operator can raise and lower the minimum of pods that wait. Of a Sakkara group its ConfigMap says it (sakkara_terms.py).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from admission.controllers.timeouts import RequeueBackoff
from admission.integrations.base import JobResult
from admission.integrations.gang import MatchPolicy, PodGang, from_text, groups_of, policy_of
from admission.integrations.gangplacement import alone, check_likeness, effective, said_of, together
from admission.integrations.pod import QueuedPod
from admission.integrations.podgroup import PodUnit, SortedMembers, UnlikePods
from api import names
from api.groups import PodGroup
from api.meta import object_key, parse_time, rfc3339
from api.sakkara import SakkaraGroup
from api.workloads import PodSet, RequeueState

BACKOFF: Final = RequeueBackoff(base=10.0, longest=600.0)
"""How long a gang stays away whose pods were not bound in time."""
DEFAULT_TIMEOUT: Final = 10.0
"""Seconds that a gang has to get bound which says nothing itself, of one that names no queue."""


@dataclass(frozen=True, slots=True)
class ExactGang:
    """A Sakkara group's demands on its gang: exactly so many pods, placed as its ConfigMap says.

    `config_map`: the name of the ConfigMap that says so, None where a PodGroup stands in for one.

    `by_priority`: the group's own priority holds, not that of its pods' classes.
    """

    group: SakkaraGroup
    config_map: str | None = None
    by_priority: bool = True


@dataclass(frozen=True, slots=True)
class GangTerms:
    """`minimum` None: none is given; `lacking` names what should, if not a PodGroup. `timeout` in seconds from the opening of
    the gates, None for none. `uid` and `since` (epoch seconds) give the gang its place in line. `placement`: what the PodGroup
    asks of the topology, as annotations; `profile`: which placement profile it names. `exact`: so many pods and no more.
    `stops`: how often too few pods were bound in time, and until when the gang stays away for that."""

    name: str
    minimum: int | None
    policy: MatchPolicy = MatchPolicy.WAITING_AND_RUNNING
    groups: tuple[str, ...] = ()
    timeout: float | None = None
    uid: str = ""
    since: float = 0.0
    placement: Mapping[str, str] = field(default_factory=dict)
    profile: str | None = None
    exact: ExactGang | None = None
    lacking: str = ""
    stops: RequeueState | None = None

    def annotations(self) -> dict[str, str]:
        """What the Workloads of the gang carry of it, for the engine (intake)."""
        said = {names.GANG: self.name, names.GANG_UID: self.uid, names.GANG_SINCE: rfc3339(self.since)}
        if self.groups:
            said[names.GANG_GROUP] = json.dumps(self.groups, separators=(",", ":"))
        if self.exact is not None and self.exact.config_map is not None:
            said[names.SAKKARA_GROUP_ANNOTATION] = self.exact.config_map
        if self.profile is not None:
            said[names.PLACEMENT_PROFILE] = self.profile
        return said


def stopped(terms: GangTerms, now: float) -> tuple[int, float]:
    """How often too few of its pods were bound in time, and the seconds until the next try; (0, 0.0) for long ago.

    A user who may write a PodGroup's status can write any time there: one beyond our longest wait was not set by us.
    """
    state = terms.stops
    at = parse_time(state.requeue_at) if state is not None else None
    if state is None or at is None or not now - 2 * BACKOFF.longest < at <= now + 2 * BACKOFF.longest:
        return 0, 0.0
    return state.count or 0, max(0.0, at - now)


def staying_away(terms: GangTerms, now: float) -> str | None:
    """Why a gang without a Workload gets none yet; None where it may have one."""
    times, left = stopped(terms, now)
    if not left or terms.stops is None:
        return None
    return f"too few pods were bound in time, {times} times so far: the next try comes at {terms.stops.requeue_at}"


def is_gang(pods: Iterable[QueuedPod]) -> bool:
    """Whether these pods are a gang of another dialect than Kueue's."""
    return any(names.GANG_TERMS in pod.annotations for pod in pods)


def terms_of(pods: Sequence[QueuedPod], pod_group: PodGroup | None) -> GangTerms:
    """What holds. Raises UnlikePods where pods contradict each other."""
    examples: dict[str | None, QueuedPod] = {}
    for pod in pods:
        examples.setdefault(pod.annotations.get(names.GANG_TERMS), pod)
    said = [(pod, gang) for text, pod in examples.items() if (gang := from_text(text)) is not None]
    first = min(pods, key=lambda pod: (pod.created, pod.metadata.name))
    name = first.group
    _check_likeness(name, said)
    gang = next((gang for _, gang in said), PodGang(name))
    key = object_key(first.metadata.namespace, name)
    minimum, groups, policy = gang.minimum, gang.groups, gang.policy
    group_says = pod_group.metadata.annotations if pod_group is not None else {}
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
        timeout=_timeout(first, pod_group),
        # One that we made tells nothing of its own: its uid would only have each Workload that waits written once more.
        uid=key if pod_group is None or _is_made(pod_group) else pod_group.metadata.uid or key,
        since=first.created,
        placement=said_of(group_says),
        profile=None if names.PLACEMENT_PROFILE in first.annotations else group_says.get(names.PLACEMENT_PROFILE),
    )


def _check_likeness(name: str, said: Sequence[tuple[QueuedPod, PodGang]]) -> None:
    for part in ("minimum", "groups", "policy"):
        by_value = {getattr(gang, part): pod.metadata.name for pod, gang in said}
        if len(by_value) > 1:
            given = ", ".join(f"{value} in pod {pod}" for value, pod in by_value.items())
            raise UnlikePods(f"{part} of the gang", given, "the same in all pods", name)


def _timeout(pod: QueuedPod, pod_group: PodGroup | None) -> float | None:
    if pod_group is not None and pod_group.spec.schedule_timeout_seconds is not None:
        return float(pod_group.spec.schedule_timeout_seconds)
    if pod.labels.get(names.QUEUE_NAME_LABEL, names.GANG_QUEUE) != names.GANG_QUEUE:
        return None
    return DEFAULT_TIMEOUT if pod_group is None or _is_made(pod_group) else None


def _is_made(pod_group: PodGroup) -> bool:
    """Whether it was made of the labels of pods (podgroups.py)."""
    return names.GANG_MADE in pod_group.metadata.labels


def counted(pods: Iterable[QueuedPod], policy: MatchPolicy) -> int:
    """How many pods count toward the minimum."""
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


def places_bound(members: SortedMembers, joined: Iterable[QueuedPod]) -> int:
    """How many places of a gang have got a node, whichever pods had them; `joined` came late, each with a place of its own.

    A member that was lost keeps its node's name, and our finalizer keeps the member until the controller lets it go. A
    successor that is still gated has its place. One that is open does not count for it: the look that opened it saw the
    lost one.
    """
    lost = Counter(pod.role for pod in members.replaced if pod.bound)
    successors = Counter(pod.role for pod in members.kept if pod.gated)
    return sum(pod.bound or pod.succeeded for pod in (*members.kept, *joined)) + (lost & successors).total()


def shortage(found: int, terms: GangTerms) -> str | None:
    """Why a gang with so many pods waits; None when it has enough."""
    if terms.minimum is None:
        return terms.lacking or f"no PodGroup {terms.name} says how many pods the gang needs, and no pod does"
    return f"{found} of {terms.minimum} pods exist" if found < terms.minimum else None


@dataclass(frozen=True)
class GangUnit(PodUnit):
    """A gang as a group: of exactly the pods that there are, and over when none of them is left to run."""

    minimum: int = 1
    placement: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_gang(cls, unit: PodUnit, terms: GangTerms) -> GangUnit:
        """The unit under these terms."""
        return cls(unit.namespace, unit.group, unit.pods, terms.minimum or 1, terms.placement)

    def only(self, pods: Sequence[QueuedPod]) -> GangUnit:
        """These of its pods."""
        return replace(self, pods=tuple(pods))

    @cached_property
    def total(self) -> int:
        """All that are there."""
        return len(self.counting)

    @property
    def fast(self) -> bool:
        """Never: a gang waits for its pods."""
        return False

    def pod_sets(self, *, topology: bool = True) -> tuple[PodSet, ...]:
        """By role; what the PodGroup asks of the topology holds for all of them together. Raises as pod groups do."""
        check_likeness(self.counting, self.group)
        found = super().pod_sets(topology=topology)
        if not topology:
            return found
        own = {pod.role: pod.annotations for pod in reversed(self.pods)}
        return together(found, own, self.placement, object_key(self.namespace, self.group))

    def _asked(self, pod: QueuedPod) -> Mapping[str, str]:
        return effective(pod.annotations, self.placement)

    def ready(self, wanted: int) -> bool:
        """As any unit; of those that are gone the gang needs no more than its minimum."""
        return super().ready(min(wanted, self.minimum))

    def finished(self) -> JobResult | None:
        """Over when all have ended; well, if as many as the minimum succeeded."""
        if not all(pod.terminated for pod in self.pods):
            return None
        succeeded = sum(pod.succeeded for pod in self.pods)
        if succeeded >= self.minimum:
            return JobResult(f"Pods succeeded: {succeeded}/{len(self.pods)}.", True)
        return JobResult(f"Pods failed: {len(self.pods) - succeeded}/{len(self.pods)}.", False)


@dataclass(frozen=True)
class LateUnit(PodUnit):
    """A pod that joins a gang late: a unit of its own, which asks for what the gang asks of a single pod."""

    placement: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_pod(cls, pod: QueuedPod, terms: GangTerms) -> LateUnit:
        """The unit under the gang's terms."""
        return cls(pod.metadata.namespace, "", (pod,), terms.placement)

    def _asked(self, pod: QueuedPod) -> Mapping[str, str]:
        return alone(effective(pod.annotations, self.placement))
