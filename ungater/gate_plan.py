"""Assigns gated pods to domains: from a workload and its pods to pairs of pod and node labels. Pure.

Two methods, as in Kueue:

- by rank, if the pod set names an index label: the pod with rank r gets the r-th place when the domains are expanded in order
  by their counts. Ranks are absolute, so a replacement gets the domain of the pod that it replaces, and pods with adjacent
  ranks are adjacent in the tree. One missing, duplicate, out-of-range or contradicting rank makes the whole pod set use
- greedy: each domain in order gets as many gated pods as its count exceeds its pods without a gate.

Pods of a Sakkara group get their nodes first and lose the gate once they have their rank (the controller sets it when all of
them have nodes), so that an environment variable made from that label has a value. The wait for a rank is bounded.

An elastic job may have more pods than were admitted, and several Workloads (slices); `slice_of` returns the current one. A job
that shrank has given up pods of its admission: a gate opens only for as many pods as its Workload requests now.

If a pod set of an admitted workload has no topology assignment, its gated pods lose the gate and get no node selector. Pods
that ended do not count, because their replacement takes their place; terminating pods do count. Pods of a workload that is
not admitted get nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final

from api.annotations.requests import parse_int32
from api.assignment import Domain, decode
from api.errors import InvalidObject
from api.meta import find_condition, is_true, parse_time
from api.names import (
    ADMITTED,
    ELASTIC_GATE,
    ELASTIC_JOB,
    EVICTED,
    FINISHED,
    HOSTNAME_LABEL,
    POD_INDEX_OFFSET,
    PODSET_LABEL,
    REPLACEMENT_FOR,
    SAKKARA_GROUP_ANNOTATION,
    SAKKARA_RANK,
    TOPOLOGY_PODSET,
    TOPOLOGY_WORKLOAD,
    WORKLOAD_ANNOTATION,
    WORKLOAD_SLICE_NAME,
)
from api.pod.pods import GatedPod
from api.topology_request import TopologyRequest
from api.workloads import PodSetAssignment, Workload

RANK_PATIENCE: Final = 10.0
"""Seconds after admission, or after the pod's creation if later, for which a gate waits for the rank."""


@dataclass(frozen=True, slots=True)
class GateChange:
    """A patch for a pod: remove its gate and add these labels to its nodeSelector (may be empty).

    `closed` adds the labels and keeps the gate.
    """

    pod: GatedPod
    node_labels: Mapping[str, str]
    closed: bool = False


@dataclass(frozen=True, slots=True)
class _Ranks:
    """The half-open range of a pod set's ranks. Members of a placement group share one numbering, the smaller member first."""

    offset: int
    end: int


@dataclass(frozen=True, slots=True)
class _PodSet:
    assignment: PodSetAssignment
    request: TopologyRequest
    levels: tuple[str, ...]
    domains: list[Domain]
    ranks: _Ranks
    given_up: int = 0
    """The number of places in the written assignment that the job has given up by shrinking."""

    @property
    def count(self) -> int:
        return self.assignment.count or 0


def workload_key(pod: GatedPod) -> str | None:
    """Returns the key of the Workload that the pod declares, in the current or older annotation; None if none."""
    annotations = pod.metadata.annotations
    name = (
        annotations.get(WORKLOAD_SLICE_NAME)
        or annotations.get(WORKLOAD_ANNOTATION)
        or annotations.get(TOPOLOGY_WORKLOAD)
    )
    return f"{pod.metadata.namespace}/{name}" if name else None


def slice_key(workload: Workload) -> str:
    """Returns the key that the workload's pods declare: for an elastic job, that of its first slice."""
    name = workload.metadata.annotations.get(WORKLOAD_SLICE_NAME) or workload.metadata.name
    return f"{workload.metadata.namespace}/{name}"


def slice_of(key: str, workloads: Iterable[Workload]) -> Workload | None:
    """Returns the slice among `workloads` (all with this `slice_key`) whose admission applies to the pods, or None.

    That is the slice that may run and that no other running slice replaces. A slice counts only if it has the same
    owner as the first slice, while the first slice exists.
    """
    candidates = list(workloads)
    first = next((w for w in candidates if w.key == key), None)
    mine = [w for w in candidates if w is first or first is None or (_owner(w) and _owner(w) == _owner(first))]
    going = [w for w in mine if may_open(w)]
    replaced = {w.metadata.annotations.get(REPLACEMENT_FOR) for w in going}
    last = sorted((w for w in going if w.key not in replaced), key=lambda w: w.key)
    return last[0] if last else first


def _owner(workload: Workload) -> str:
    return workload.owner.uid if workload.owner else ""


def may_open(workload: Workload) -> bool:
    """Reports whether gates of the workload's pods may open: it is admitted, and neither evicted nor finished."""
    conditions = workload.status.conditions
    return (
        workload.status.admission is not None
        and is_true(conditions, ADMITTED)
        and not is_true(conditions, EVICTED)
        and not is_true(conditions, FINISHED)
    )


def expected_pods(workload: Workload) -> int:
    """Returns the number of pods that may run. Once as many exist, there is no reason to wait for more."""
    return sum(psa.count or 0 for psa in _granted(workload))


def _granted(workload: Workload) -> Sequence[PodSetAssignment]:
    """Returns the assignments; those of an elastic job with at most as many pods as its Workload still requests."""
    admission = workload.status.admission
    if admission is None:
        return []
    if workload.metadata.annotations.get(ELASTIC_JOB) != "true":
        return admission.pod_set_assignments
    asked = {pod_set.name: pod_set.count for pod_set in workload.spec.pod_sets}
    return [
        psa.model_copy(update={"count": most})
        if (most := asked.get(psa.name, psa.count or 0)) < (psa.count or 0)
        else psa
        for psa in admission.pod_set_assignments
    ]


def awaits_rank(workload: Workload, pod: GatedPod, now: float) -> bool:
    """Reports whether the pod's gate stays closed until the pod has its rank in the group."""
    if SAKKARA_GROUP_ANNOTATION not in workload.metadata.annotations or SAKKARA_RANK in pod.metadata.labels:
        return False
    admitted = find_condition(workload.status.conditions, ADMITTED)
    moments = (admitted.last_transition_time if admitted is not None else None, pod.metadata.creation_timestamp)
    return now < max(parse_time(moment) or 0.0 for moment in moments) + RANK_PATIENCE


def plan(workload: Workload, pods: Iterable[GatedPod], now: float = inf) -> list[GateChange]:
    """Returns the patches that are due at `now` (epoch seconds).

    `pods` holds all pods that declare this workload, in listing order. Raises InvalidObject if a pod's index offset is not
    an integer, or if an assignment contradicts itself.
    """
    if not may_open(workload):
        return []
    by_pod_set: dict[str, list[GatedPod]] = {}
    for pod in pods:
        if not pod.terminated and PODSET_LABEL in pod.metadata.labels:
            by_pod_set.setdefault(pod.metadata.labels[PODSET_LABEL], []).append(pod)
    unhealthy = {node.name for node in workload.status.unhealthy_nodes}
    openings: list[GateChange] = []
    for pod_set, ranks in _ranked(workload):
        own = _by_index(by_pod_set.get(pod_set.name, []), _request(workload, pod_set.name).pod_index_label)
        if pod_set.topology_assignment is None:
            openings += _open_ahead(pod_set, own) or _open_elastic(workload, pod_set, own)
        elif any(pod.gated for pod in own):
            opening = _open_pod_set(_resolve(workload, pod_set, own, ranks), own, unhealthy)
            openings += _after_ranks(workload, opening, now)
    return openings


def _open_ahead(pod_set: PodSetAssignment, pods: Sequence[GatedPod]) -> list[GateChange]:
    """Opens as many pods as were admitted that the webhook gated at creation, by the older annotations.

    Any other topology gate of a pod set without topology waits for an assignment, as in Kueue.
    """
    waiting = [pod for pod in pods if pod.gated and TOPOLOGY_PODSET in pod.metadata.annotations]
    free = len(pods) if pod_set.count is None else pod_set.count - sum(not pod.gated for pod in pods)
    return [GateChange(pod, {}) for pod in waiting[: max(0, free)]]


def _open_elastic(workload: Workload, pod_set: PodSetAssignment, pods: Sequence[GatedPod]) -> list[GateChange]:
    """Opens as many pods of an elastic pod set without topology as were admitted, in order."""
    if workload.metadata.annotations.get(ELASTIC_JOB) != "true":
        return []
    through = sum(not pod.gated for pod in pods)
    waiting = [pod for pod in pods if pod.closed_gates == (ELASTIC_GATE,)]
    return [GateChange(pod, {}) for pod in waiting[: max(0, (pod_set.count or 0) - through)]]


def _by_index(pods: Sequence[GatedPod], label: str | None) -> Sequence[GatedPod]:
    """Returns an elastic job's pods sorted by index, so that surplus pods with the highest index wait."""
    if label is None or not any(ELASTIC_GATE in pod.closed_gates for pod in pods):
        return pods

    def index(pod: GatedPod) -> tuple[int, str]:
        text = pod.metadata.labels.get(label, "")
        return (int(text), "") if text.isascii() and text.isdigit() and len(text) < 10 else (2**31, text)

    return sorted(pods, key=index)


def _after_ranks(workload: Workload, openings: Iterable[GateChange], now: float) -> Iterator[GateChange]:
    """Yields the changes. A pod that waits for its rank gets only its nodeSelector, once."""
    for opening in openings:
        if HOSTNAME_LABEL not in opening.node_labels or not awaits_rank(workload, opening.pod, now):
            yield opening
        elif not _is_sent(opening.pod, opening.node_labels):
            yield replace(opening, closed=True)


def _is_sent(pod: GatedPod, node_labels: Mapping[str, str]) -> bool:
    return node_labels.items() <= pod.spec.node_selector.items()


def _ranked(workload: Workload) -> list[tuple[PodSetAssignment, _Ranks]]:
    """Returns the assignment and ranks of each pod set."""
    assignments = _granted(workload)
    groups: dict[str, list[PodSetAssignment]] = {}
    for index, psa in enumerate(assignments):
        name = _request(workload, psa.name).pod_set_group_name
        groups.setdefault(f"group {name}" if name else f"single {index}", []).append(psa)
    ranks: dict[str, _Ranks] = {}
    for members in groups.values():
        # The smaller pod set is the leader; with equal counts the first one.
        start = 0
        for psa in sorted(members, key=lambda member: member.count or 0):
            ranks[psa.name] = _Ranks(start, start + (psa.count or 0))
            start += psa.count or 0
    return [(psa, ranks[psa.name]) for psa in assignments]


def _request(workload: Workload, pod_set: str) -> TopologyRequest:
    request = next((ps.topology_request for ps in workload.spec.pod_sets if ps.name == pod_set), None)
    return request or TopologyRequest()


def _resolve(workload: Workload, psa: PodSetAssignment, pods: Sequence[GatedPod], ranks: _Ranks) -> _PodSet:
    assert psa.topology_assignment is not None  # noqa: S101  the caller has checked
    offset, written = _index_offset(pods), decode(psa.topology_assignment)
    domains = list(_first(written, _total(written) if psa.count is None else psa.count))
    return _PodSet(
        assignment=psa,
        request=_request(workload, psa.name),
        levels=psa.topology_assignment.levels,
        domains=domains,
        ranks=_Ranks(ranks.offset + offset, ranks.end + offset),
        given_up=_total(written) - _total(domains),
    )


def _total(domains: Iterable[Domain]) -> int:
    return sum(count for _, count in domains)


def _first(domains: Iterable[Domain], most: int) -> Iterator[Domain]:
    """Yields the places of the first `most` pods."""
    for values, count in domains:
        if most > 0:
            yield values, min(count, most)
        most -= count


def _index_offset(pods: Sequence[GatedPod]) -> int:
    """Returns the first index, from an annotation on pods of kinds that do not start at 0. Raises InvalidObject."""
    text = pods[0].metadata.annotations.get(POD_INDEX_OFFSET) if pods else None
    if text is None:
        return 0
    if (offset := parse_int32(text)) is None:
        field = f"metadata.annotations[{POD_INDEX_OFFSET}]"
        raise InvalidObject(field, text, "failed to parse offset annotation: must be an integer", f"Pod {pods[0].key}")
    return offset


def _open_pod_set(pod_set: _PodSet, pods: Sequence[GatedPod], unhealthy: set[str]) -> list[GateChange]:
    pairs = _by_rank(pod_set, pods)
    if pairs is None:
        pairs = _greedy(pod_set, pods)
    host = pod_set.levels[-1] == HOSTNAME_LABEL
    return [
        GateChange(pod, dict(zip(pod_set.levels, values, strict=True)))
        for pod, values in pairs
        if pod.gated and not (host and values[-1] in unhealthy)
    ]


def _domain_of(pod: GatedPod, levels: Sequence[str]) -> tuple[str, ...]:
    """Returns the domain of an ungated pod, from its nodeSelector."""
    return tuple(pod.spec.node_selector.get(level, "") for level in levels)


def _by_rank(pod_set: _PodSet, pods: Sequence[GatedPod]) -> list[tuple[GatedPod, tuple[str, ...]]] | None:
    """Returns pairs by rank, or None if ranks are incomplete or contradictory."""
    ranked = _pods_by_rank(pod_set, pods)
    if ranked is None:
        return None
    places = [values for values, count in pod_set.domains for _ in range(count)]
    if any(rank >= len(places) for rank in ranked):
        return None
    for rank, pod in ranked.items():
        if not pod.gated and _domain_of(pod, pod_set.levels) != places[rank]:
            return None
    return [(pod, places[rank]) for rank, pod in sorted(ranked.items())]


def _pods_by_rank(pod_set: _PodSet, pods: Sequence[GatedPod]) -> dict[int, GatedPod] | None:
    request = pod_set.request
    if request.pod_index_label is None:
        return None
    per_job = pod_set.count
    if request.sub_group_index_label is not None:
        if not request.sub_group_count or request.sub_group_count < 0:
            return None
        per_job = pod_set.count // request.sub_group_count
    ranked: dict[int, GatedPod] = {}
    for pod in pods:
        rank = _rank(pod, pod_set, per_job)
        if rank is None or rank in ranked:
            return None
        ranked[rank] = pod
    return ranked


def _rank(pod: GatedPod, pod_set: _PodSet, per_job: int) -> int | None:
    """Returns the pod's rank in 0..count-1, or None if its labels give none."""
    request = pod_set.request
    index = _index(pod, request.pod_index_label, pod_set.ranks.end)
    if index is None:
        return None
    rank = index - pod_set.ranks.offset
    if request.sub_group_index_label is not None:
        job = _index(pod, request.sub_group_index_label, request.sub_group_count or 0)
        if job is None or index >= per_job:
            return None
        rank += job * per_job
    return rank if 0 <= rank < pod_set.count else None


def _index(pod: GatedPod, label: str | None, end: int) -> int | None:
    text = pod.metadata.labels.get(label or "", "")
    return int(text) if text.isascii() and text.isdigit() and int(text) < end else None


def _greedy(pod_set: _PodSet, pods: Sequence[GatedPod]) -> list[tuple[GatedPod, tuple[str, ...]]]:
    through = Counter(_domain_of(pod, pod_set.levels) for pod in pods if not pod.gated)
    pairs: list[tuple[GatedPod, tuple[str, ...]]] = []
    places, unsent = dict(pod_set.domains), list[GatedPod]()
    for pod in pods:
        if not pod.gated:
            continue
        values = _domain_of(pod, pod_set.levels)
        if through[values] < places.get(values, 0):  # already has its nodeSelector and waits for its rank
            through[values] += 1
            pairs.append((pod, values))
        else:
            unsent.append(pod)
    # Pods of a job that shrank may still run in places that it gave up.
    most = max(0, pod_set.count - through.total()) if pod_set.given_up else len(unsent)
    waiting = iter(unsent[:most])
    for values, count in pod_set.domains:
        for _ in range(count - through[values]):
            foremost = next(waiting, None)
            if foremost is None:
                return pairs
            pairs.append((foremost, values))
    return pairs
