"""Searches flavors and domains for workloads: the question that every decision and explanation asks.

1. *flavors* (`flavors_of`): by quota alone, for one workload.
2. *places* (`place`): domains for all its pod sets, in these flavors.
3. *both* (`solve`): flavors for each workload, which see the quota of the workloads before it, and one joint placement of all
   pod sets. Pod sets with the same `podset-group-name` share a domain, also across workloads. If nodes have no room for a pod
   set, its flavor is refused and the search goes on.

The cycle runs steps 1 and 2 separately, because other heads may come first between them; so does preemption, which tests in
between which victims would help (nominate.py). Workloads that start together, expected starts and explanations
(admission_attempt.py) call `solve`. Only the search for victims (preemption/removal.py, a layer below) asks the ledger for
places itself. The ledger is not charged. Source: cycle.md 4.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final

from admission.engine.cycle.held_capacity import drawing
from admission.engine.cycle.nomination import Nomination
from admission.engine.decision import NoPlacement, PlacementResult
from admission.engine.flavors.assign import FlavorAssignment, Mode, NoPreemption, PreemptionOracle
from admission.engine.flavors.search import EVERYWHERE, FlavorSearch, QuotaQueries, Scope, Searches
from admission.engine.ledger.holds import HELD_OF_FLAVOR
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Assignment, ClusterQueue, PlacementRequest, Workload
from admission.engine.reasons import Reason
from admission.engine.requests import placement_requests
from admission.engine.spare_quota import shortage, within_quota

Refused = dict[tuple[str, str], str]
"""Flavors that a pod set cannot use: (pod set, flavor), with the reason."""
LeavesQuota = Callable[[str, FlavorAssignment], bool]
"""Whether the quota of that ClusterQueue is enough for these flavors beside the quota that is reserved for others."""

RESERVED: Final = "the quota that it needs is reserved for other workloads"
_NOTHING_TO_PLACE: Final = PlacementResult({}, {})


class Nodes(Enum):
    """The nodes that a search may use."""

    AS_THEY_ARE = auto()
    EMPTY = auto()  # as if no workload were admitted
    IGNORED = auto()  # quota alone


@dataclass(frozen=True, slots=True)
class Unsolved:
    """One of the workloads does not fit, for this reason. `assignment` has its flavors as far as they were found."""

    workload: str
    reason: Reason
    message: str
    assignment: FlavorAssignment | None = None


def flavors_of(
    ledger: Ledger,
    workload: Workload,
    queue: ClusterQueue,
    scope: Scope = EVERYWHERE,
    preemption: PreemptionOracle | None = None,
    queries: QuotaQueries | None = None,
    searches: Searches | None = None,
) -> FlavorAssignment:
    """Returns the flavors that quota allows.

    `preemption` decides whether evictions would help; None means that nothing is evicted. `queries` collects what was asked.
    `searches` has earlier searches for the same workload on the same ledger, which this one goes on with.
    """
    oracle = NoPreemption(ledger.quota) if preemption is None else preemption
    return FlavorSearch(queue, ledger.flavors, ledger.quota, oracle, scope, queries, searches).assign(workload)


def place(ledger: Ledger, requests: Sequence[PlacementRequest], *, empty: bool = False) -> PlacementResult:
    """Domains for all requests together. Without requests the result is empty. `empty`: place on nodes without workloads."""
    if not requests:
        return _NOTHING_TO_PLACE
    result = ledger.placement.place(requests, simulate_empty=empty)
    return result if empty or result.fits else _with_held(ledger, requests, result)


def _with_held(ledger: Ledger, requests: Sequence[PlacementRequest], result: PlacementResult) -> PlacementResult:
    """Returns a result in which each failure says how many hosts of its flavor are held.

    It claims nothing about what would fit on them: that would cost a placement for each refusal.
    """
    if not ledger.holds.of_flavor:
        return result
    flavors = {request.pod_set.name: request.flavor for request in requests}
    held = {flavor: hosts for flavor in set(flavors.values()) if (hosts := ledger.holds.hosts_of_flavor(flavor))}
    failures = {
        name: replace(why, message=f"{why.message}. {HELD_OF_FLAVOR} {flavors[name]}: {held[flavors[name]]}")
        if flavors[name] in held
        else why
        for name, why in result.failures.items()
    }
    return replace(result, failures=failures)


def refusals(requests: Sequence[PlacementRequest], failures: Mapping[str, NoPlacement]) -> Refused:
    """Returns the flavors whose nodes have no room for a pod set, with the message of the placement."""
    names = ((request.pod_set.name, request.flavor) for request in requests)
    return {(name, flavor): failures[name].message for name, flavor in names if name in failures}


def solve(
    ledger: Ledger,
    members: Sequence[Workload],
    now: float,
    *,
    nodes: Nodes = Nodes.AS_THEY_ARE,
    fair: bool = False,
    leaves_quota: LeavesQuota | None = None,
) -> tuple[Nomination, ...] | Unsolved:
    """Returns the nominations of all workloads if they fit together at `now` (epoch seconds) without evictions; else the
    first that does not fit, and why.
    """
    with drawing(ledger, *members):
        return _solve(ledger, members, now, nodes, leaves_quota, fair=fair)


def _solve(
    ledger: Ledger,
    members: Sequence[Workload],
    now: float,
    nodes: Nodes,
    leaves_quota: LeavesQuota | None,
    *,
    fair: bool,
) -> tuple[Nomination, ...] | Unsolved:
    refused: dict[str, Refused] = {member.key: {} for member in members}
    searches: Searches | None = {} if len(members) == 1 else None
    while True:
        searched = _flavors(ledger, members, refused, leaves_quota, searches, fair=fair)
        if isinstance(searched, Unsolved):
            return searched
        if nodes is Nodes.IGNORED:
            return tuple(Nomination(member, got) for member, _, got in searched)
        places, more = _places(ledger, searched, now, empty=nodes is Nodes.EMPTY)
        if not more:
            nominations = tuple(Nomination(member, got, places.get(member.key, {})) for member, _, got in searched)
            if len(nominations) == 1:
                nominations = (_within_quota(ledger, nominations[0], searched[0][1], now, empty=nodes is Nodes.EMPTY),)
            if (short := quota_shortage(ledger, nominations)) is not None:
                return Unsolved(short[0], Reason.WAITING_FOR_QUOTA, short[1])
            return nominations
        for key, flavors in more.items():
            refused[key].update(flavors)


def quota_shortage(ledger: Ledger, nominations: Sequence[Nomination]) -> tuple[str, str] | None:
    """Returns the key of the first nomination that exceeds the quota with what it holds beside, and why; None if all fit."""
    if not any(each.workload.asks_beside for each in nominations):
        return None
    with ledger.trial():
        for each in nominations:
            usage, queue = each.quota(), each.workload.cluster_queue
            if not ledger.quota.fits(queue, usage):
                return each.workload.key, shortage(each.workload)
            ledger.quota.add(queue, usage)
    return None


def _within_quota(
    ledger: Ledger, nomination: Nomination, queue: ClusterQueue, now: float, *, empty: bool
) -> Nomination:
    """Returns the nomination with other places if these leave too little quota for what it holds beside, and there are some."""
    if not nomination.workload.asks_beside or not nomination.places:
        return nomination
    requests = placement_requests(nomination.workload, queue, nomination.assignment, ledger.flavors, now)
    result = within_quota(
        ledger,
        nomination.workload,
        nomination.assignment,
        requests,
        PlacementResult(nomination.places, {}),
        empty=empty,
    )
    return replace(nomination, places=result.assignments) if result.fits else nomination


# ---- flavors of each

_Found = list[tuple[Workload, ClusterQueue, FlavorAssignment]]


def _flavors(
    ledger: Ledger,
    members: Sequence[Workload],
    refused: Mapping[str, Refused],
    leaves_quota: LeavesQuota | None,
    searches: Searches | None,
    *,
    fair: bool,
) -> _Found | Unsolved:
    of_members: _Found = []
    flavor_by_group: dict[str, str] = {}
    with ledger.trial() if len(members) > 1 else nullcontext():
        for member in members:
            queue = ledger.quota.spec(member.cluster_queue)
            if queue is None:
                text = f"ClusterQueue {member.cluster_queue} not found"
                return Unsolved(member.key, Reason.MISCONFIGURED, text)
            scope = Scope({**refused[member.key], **_elsewhere(member, queue, flavor_by_group)}, fair=fair)
            got = flavors_of(ledger, member, queue, scope, searches=searches)
            if got.mode < Mode.FIT:
                return Unsolved(member.key, got.reason, got.message(), got)
            if leaves_quota is not None and not leaves_quota(queue.name, got):
                return Unsolved(member.key, Reason.WAITING_FOR_QUOTA, RESERVED, got)
            if len(members) > 1:
                ledger.quota.add(queue.name, got.usage)
                _settle(member, got, flavor_by_group)
            of_members.append((member, queue, got))
    return of_members


def _group_names(member: Workload) -> dict[str, str]:
    """Returns the placement group of each pod set that has one."""
    requested = ((pod_set.name, pod_set.topology) for pod_set in member.pod_sets)
    return {name: topology.group for name, topology in requested if topology is not None and topology.group is not None}


def _elsewhere(member: Workload, queue: ClusterQueue, flavor_by_group: Mapping[str, str]) -> Refused:
    """Returns the flavors that its pod sets cannot use, because their placement group is on another flavor."""
    if not flavor_by_group:
        return {}
    return {
        (name, flavor): f"pod set group {group} of the gangs is on flavor {flavor_by_group[group]}"
        for name, group in _group_names(member).items()
        for flavor in queue.flavors
        if flavor_by_group.get(group, flavor) != flavor
    }


def _settle(member: Workload, assignment: FlavorAssignment, flavor_by_group: dict[str, str]) -> None:
    """Records the flavors of the placement groups of this workload."""
    groups = _group_names(member)
    for pod_set in assignment.pod_sets:
        if pod_set.name in groups and pod_set.topology is not None:
            flavor_by_group.setdefault(groups[pod_set.name], pod_set.topology)


# ---- places of all


def _places(
    ledger: Ledger, of_members: _Found, now: float, *, empty: bool
) -> tuple[dict[str, Mapping[str, Assignment]], dict[str, Refused]]:
    """Returns, by workload, its domains, and the flavors whose nodes have no capacity for a pod set."""
    by_key = {
        member.key: placement_requests(member, queue, got, ledger.flavors, now) for member, queue, got in of_members
    }
    if len(of_members) == 1:
        ((key, requests),) = by_key.items()
        result = place(ledger, requests, empty=empty)
        refused = refusals(requests, result.failures)
        return {key: result.assignments}, {key: refused} if refused else {}
    joint = {
        f"{key}:{request.pod_set.name}": (key, request) for key, requests in by_key.items() for request in requests
    }
    result = place(ledger, [_named(name, request) for name, (_, request) in joint.items()], empty=empty)
    places: dict[str, Mapping[str, Assignment]] = {
        key: {
            request.pod_set.name: result.assignments[name]
            for name, (owner, request) in joint.items()
            if owner == key and name in result.assignments
        }
        for key in by_key
    }
    more: dict[str, Refused] = {}
    for name, failure in result.failures.items():
        key, request = joint[name]
        more.setdefault(key, {})[request.pod_set.name, request.flavor] = failure.message
    return places, more


def _named(name: str, request: PlacementRequest) -> PlacementRequest:
    """Returns the request under a name that is unique across workloads."""
    return replace(request, pod_set=replace(request.pod_set, name=name))
