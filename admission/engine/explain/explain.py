"""Why a workload waits and what would let it in: the whole explanation, on the ledger as it stands.

Nothing is booked and the ledger is the same afterwards; the same ledger gives the same answer. Called by the controller for
a Workload that has waited a while (controllers/explaining.py), by `stowage explain`, and by whoever holds a ledger.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from admission.engine.cycle.requests import placement_requests
from admission.engine.decision import Reason
from admission.engine.explain.attempt import attempt, cannot_run
from admission.engine.explain.finishing import Site
from admission.engine.explain.quotas import Family, asked_of, quota_views
from admission.engine.explain.remedies import remedies
from admission.engine.explain.rooms import Rooms, groups_of
from admission.engine.explain.trying import BUDGET, Budget, Trying
from admission.engine.explain.value import Explanation, FlavorView, PodSetView, QuotaView, Verdict
from admission.engine.flavors.assign import FlavorAssignment, PodSetFlavors
from admission.engine.flavors.eligible import unsuitable, wants_topology
from admission.engine.flavors.search import topology_implied
from admission.engine.ledger import Ledger
from admission.engine.model import ClusterQueue, Flavor, PlacementRequest, PodSet, ResourceGroup, Workload
from admission.engine.topology.constraints import Group, pod_amounts, wants_of
from admission.engine.topology.match import untolerated
from admission.engine.topology.shares import spots


def explain(
    ledger: Ledger, workload: Workload, now: float, *, ahead: Sequence[str] = (), budget: int = BUDGET
) -> Explanation:
    """The explanation at `now`, epoch seconds. `ahead`: keys of those before it in its queue.

    `budget`: how many placements may be tried for remedies; 0 for none.
    """
    queue = ledger.quota.spec(workload.cluster_queue)
    found = Explanation(workload.key, workload.cluster_queue, Verdict.BLOCKED, Reason.PENDING_EVALUATION, "")
    if ledger.admission(workload.key) is not None:
        return replace(found, verdict=Verdict.ADMITTED)
    if workload.blocked is not None:
        return replace(found, reason=Reason(workload.blocked[0]), message=workload.blocked[1])
    outcome = attempt(ledger, workload, now, words=True)
    if outcome.fits:
        return replace(found, verdict=Verdict.FITS, ahead=tuple(ahead[:5]))
    found = replace(found, reason=outcome.reason, message=outcome.message)
    if queue is None or outcome.reason in (Reason.MISCONFIGURED, Reason.SUSPENDED):
        return found
    never = cannot_run(ledger, workload) is not None
    views = _Views(ledger, workload, queue, now)
    found = replace(
        found,
        verdict=Verdict.CANNOT_RUN if never else Verdict.WAITS,
        flavors=tuple(views.flavors()),
        complete=budget > 0,
    )
    left = Budget(budget)
    if budget > 0:
        trying = Trying(ledger, workload, queue, now, left)
        found = replace(found, remedies=remedies(trying, views.sites, views.family, alone=never))
    return replace(found, complete=not left.spent)


class _Views:
    """What each flavor of the queue offers; `sites` are the groups that found no place, of the flavors looked at so far."""

    def __init__(self, ledger: Ledger, workload: Workload, queue: ClusterQueue, now: float) -> None:
        self._ledger, self._workload, self._queue, self._now = ledger, workload, queue, now
        self._implied = topology_implied(queue, ledger.flavors)
        self.family = Family(ledger, queue.name)
        self.sites: list[Site] = []

    def flavors(self) -> Iterator[FlavorView]:
        """In the order of the queue."""
        for group in self._queue.groups:
            asked = asked_of(self._queue, group, self._workload)
            for quotas in group.flavors:
                if any(asked.values()):
                    view = self._flavor(group, quotas.flavor)
                    quota = {resource: amount for resource, amount in asked.items() if resource in quotas.quotas}
                    yield replace(view, quota=self._quota(quotas.flavor, quota))

    def _quota(self, flavor: str, asked: Mapping[str, int]) -> tuple[QuotaView, ...]:
        return quota_views(self._ledger, self._queue, self.family, flavor, asked)

    def _flavor(self, group: ResourceGroup, name: str) -> FlavorView:
        flavor = self._ledger.flavors.get(name)
        if flavor is None:
            return FlavorView(name, None, Reason.FLAVOR_NOT_FOUND, f"flavor {name} not found")
        view = FlavorView(name, flavor.topology)
        pod_sets = [p for p in self._workload.pod_sets if any(p.requests.get(r) for r in group.resources)]
        for pod_set in pod_sets:
            text = unsuitable(pod_set, flavor, group.resources, self._implied)
            if text is not None:
                return replace(view, code=_code(pod_set, flavor, text), message=text)
        if flavor.levels is None:
            return view
        requests = self._requests(pod_sets, name)
        return replace(view, pod_sets=tuple(self._pod_sets(name, requests))) if requests else view

    def _requests(self, pod_sets: Sequence[PodSet], flavor: str) -> list[PlacementRequest]:
        """All of them on this flavor, whatever its quota."""
        wanting = (p for p in pod_sets if p.count and wants_topology(p, self._implied))
        here = tuple(PodSetFlavors(p.name, {}, {}, topology=flavor) for p in wanting)
        found = FlavorAssignment(here, {})
        return placement_requests(self._workload, self._queue, found, self._ledger.flavors, self._now)

    def _pod_sets(self, flavor: str, requests: Sequence[PlacementRequest]) -> Iterator[PodSetView]:
        """The groups that found no place, each beside those that did."""
        result = self._ledger.place(requests)
        if result.fits:
            return
        with self._ledger.trial():
            for request in requests:
                assignment = result.assignments.get(request.pod_set.name)
                if assignment is not None:
                    vector = self._ledger.capacity.columns.vector(pod_amounts(request.pod_set))
                    wants = wants_of(request.pod_set, self._ledger.flavors[flavor])
                    for spot, count in spots(self._ledger.capacity, flavor, assignment, vector, wants):
                        self._ledger.capacity.assume(spot, vector, count)
            rooms = Rooms.of(self._ledger, flavor)
            for group in groups_of(requests):
                failure = result.failures.get(group.workers.pod_set.name)
                if failure is not None:
                    yield self._pod_set(rooms, group, failure.message)

    def _pod_set(self, rooms: Rooms | None, group: Group, message: str) -> PodSetView:
        names = tuple(member.pod_set.name for member in group.members)
        ask = "" if rooms is None else rooms.ask(group)
        if rooms is None or isinstance(ask, str):
            return PodSetView(names, message)
        self.sites.append(Site(rooms, group, ask))
        return PodSetView(names, message, rooms.levels(group))


def _code(pod_set: PodSet, flavor: Flavor, text: str) -> Reason:
    """Which test of `unsuitable` the flavor failed: levels come first, then taints, then labels."""
    if text.startswith("Flavor "):
        return Reason.LEVEL_MISMATCH
    if untolerated(flavor.taints, (*pod_set.tolerations, *flavor.tolerations)) is not None:
        return Reason.UNTOLERATED_TAINT
    return Reason.NODE_AFFINITY_MISMATCH
