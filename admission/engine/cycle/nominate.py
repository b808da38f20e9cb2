"""Nomination: the flavors, domains and victims of a workload as things stand, with fewer pods if need be.

1. *flavors* that quota allows (solve.py).
2. *domains*: if the flavors fit, the pod sets are placed. If flavors or nodes do not fit, other workloads must leave. If
   not even a cluster without admitted workloads has room, the workload fits nowhere.
3. *victims*: the workloads that preemption would evict, and the domains after that. If nothing can be evicted, the domains of
   an empty cluster, so that the cycle can keep them free of later workloads.
4. *other flavors*: if quota would fit but preemption finds no victims, or nodes are in the way of any victims, the flavors that
   failed are refused and the search goes on. Kueue tries these flavors in its next cycles.
5. *fewer pods*: if all that fails, pod sets with a `minCount` give up pods evenly, as few as possible, found by bisection
   (cycle.md 4.7); a gang keeps its minimum of pods (fewer_pods.py). A workload that can start with fewer pods evicts only
   workloads of lower priority for more of them: two such workloads of the same priority would evict each other in turn.

Nothing is charged; cycle.py does that. Source: cycle.md 4.2, 4.5, 4.7.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from admission.engine.cycle.fewer_pods import spare_pods, with_fewer
from admission.engine.cycle.nomination import Nomination
from admission.engine.cycle.solve import flavors_of, place
from admission.engine.decision import NoPlacement, PlacementResult, Victim
from admission.engine.flavors.assign import (
    FlavorAssignment,
    Mode,
    NoPreemption,
    PodSetFlavors,
    Preemptions,
    VictimFinder,
)
from admission.engine.flavors.search import EVERYWHERE, Scope, Searches
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    Assignment,
    ClusterQueue,
    PlacementRequest,
    Workload,
)
from admission.engine.reasons import Reason
from admission.engine.requests import placement_requests
from admission.engine.spare_quota import within_quota

OVERLAP = "Workload has overlapping preemption targets with another workload"
DEFERRED = f"{OVERLAP}, but will fit after these preemptions complete"


class Nominator:
    """Nominates workloads on the ledger as it stands.

    `partial`: pod sets may start with fewer pods. `thorough`: step 4 is run.
    """

    def __init__(
        self, ledger: Ledger, preemptions: Preemptions, now: float, *, partial: bool = True, thorough: bool = False
    ) -> None:
        self._ledger, self._preemptions, self._now = ledger, preemptions, now
        self._partial, self._thorough = partial, thorough

    def nominate(
        self,
        workload: Workload,
        queue: ClusterQueue,
        scope: Scope = EVERYWHERE,
        settled: FlavorAssignment | None = None,
    ) -> Nomination:
        """Returns the best nomination for all pods; else for the most pods that can start; else again the one for all pods.

        `settled` is the result of a search for all pods in this scope, if it was made before.
        """
        full = self._best(workload, queue, scope, settled)
        if full.starts or not self._partial:
            return full
        some = self.fewer(workload, queue, scope)
        if some is None or self._victims_are_lower(workload, some.victims):
            return some or full
        return self.fewer_beside_others(workload, queue, scope) or some

    def _victims_are_lower(self, workload: Workload, victims: Sequence[Victim]) -> bool:
        admitted = (self._ledger.workload(victim.workload) for victim in victims)
        return all(victim is None or victim.priority < workload.priority for victim in admitted)

    def fewer_beside_others(
        self, workload: Workload, queue: ClusterQueue, scope: Scope = EVERYWHERE
    ) -> Nomination | None:
        """Returns the nomination for the largest number of pods, below all, that can start without any eviction."""
        beside = Nominator(self._ledger, NoPreemption(self._ledger.quota), self._now, thorough=self._thorough)
        return beside.fewer(workload, queue, scope)

    def _best(
        self, workload: Workload, queue: ClusterQueue, scope: Scope, settled: FlavorAssignment | None = None
    ) -> Nomination:
        searches: Searches = {}
        nomination = self._attempt(workload, queue, scope, searches, settled)
        if not nomination.starts and self._thorough and len(queue.flavors) > 1:
            nomination = self._elsewhere(nomination, workload, queue, scope, searches) or nomination
        return nomination

    def _elsewhere(
        self, first: Nomination, workload: Workload, queue: ClusterQueue, scope: Scope, searches: Searches
    ) -> Nomination | None:
        refused, nomination = dict(scope.refused), first
        while nomination.failed.keys() - refused.keys():
            refused.update(nomination.failed)
            nomination = self._attempt(workload, queue, replace(scope, refused=dict(refused)), searches)
            if nomination.starts:
                return nomination
        return None

    def at_once(self, workload: Workload, queue: ClusterQueue, settled: FlavorAssignment) -> Nomination | None:
        """Returns the nomination with these flavors on nodes as they are; None if quota or nodes have too little capacity."""
        if settled.mode is not Mode.FIT:
            return None
        requests = placement_requests(workload, queue, settled, self._ledger.flavors, self._now)
        placed = self._place(workload, settled, requests)
        return Nomination(workload, settled, placed.assignments) if placed.fits else None

    def _place(
        self, workload: Workload, flavors: FlavorAssignment, requests: Sequence[PlacementRequest]
    ) -> PlacementResult:
        return within_quota(self._ledger, workload, flavors, requests, place(self._ledger, requests))

    def fewer(self, workload: Workload, queue: ClusterQueue, scope: Scope = EVERYWHERE) -> Nomination | None:
        """Returns the nomination for the largest number of pods, below all, that can start; None if there is none."""
        total = spare_pods(workload)
        best = None
        low, high = 0, total + 1 if total else 0
        while low < high:
            middle = (low + high) // 2
            tried = (self._best(fewer, queue, scope) for fewer in with_fewer(workload, middle))
            nomination = next((each for each in tried if each.starts), None)
            if nomination is not None:
                best, high = nomination, middle
            else:
                low = middle + 1
        return best

    def _attempt(
        self,
        workload: Workload,
        queue: ClusterQueue,
        scope: Scope,
        searches: Searches,
        settled: FlavorAssignment | None = None,
    ) -> Nomination:
        preemption = self._preemptions.about(workload)
        flavors = settled
        if flavors is None:
            flavors = flavors_of(self._ledger, workload, queue, scope, preemption, searches=searches)
        if flavors.mode is Mode.NO_FIT:
            return Nomination(workload, flavors)
        requests = placement_requests(workload, queue, flavors, self._ledger.flavors, self._now)
        if flavors.mode is Mode.FIT:
            placed = self._ledger.placement.refusal(requests) or self._place(workload, flavors, requests)
            if placed.fits:
                return Nomination(workload, flavors, placed.assignments)
            flavors = _unplaced(flavors, placed.failures, Mode.PREEMPT)
        return self._behind_others(workload, flavors, requests, preemption)

    def _behind_others(
        self,
        workload: Workload,
        flavors: FlavorAssignment,
        requests: Sequence[PlacementRequest],
        preemption: VictimFinder,
    ) -> Nomination:
        """Returns the nomination after evictions: the victims, and the domains that the workload would take then."""
        failed = _failed(flavors)
        empty = place(self._ledger, requests, empty=True)
        if not empty.fits:
            flavors = _unplaced(flavors, empty.failures, Mode.NO_FIT)
            return Nomination(workload, flavors, fits_nowhere=True, failed=_failed(flavors) if failed else {})
        flavors = _all_placed_preempt(flavors)
        victims = tuple(preemption.targets(workload, flavors))
        places = empty.assignments
        if victims and requests:
            places = self._places_without(victims, workload, flavors, requests)
        return Nomination(workload, flavors, places, victims, failed=failed)

    def _places_without(
        self,
        victims: Sequence[Victim],
        workload: Workload,
        flavors: FlavorAssignment,
        requests: Sequence[PlacementRequest],
    ) -> Mapping[str, Assignment]:
        with self._ledger.trial():
            for victim in victims:
                self._ledger.simulate_removal(victim.workload)
                if (admission := self._ledger.admission(victim.workload)) is not None:
                    usage = self._ledger.returned(victim.workload, admission)
                    self._ledger.quota.remove(admission.cluster_queue, usage)
            return self._place(workload, flavors, requests).assignments


def _failed(flavors: FlavorAssignment) -> dict[tuple[str, str], str]:
    """Returns the flavors that cannot fit without victims; empty if quota has no candidates, since then no other flavor has
    any.
    """
    if flavors.mode is Mode.NO_CANDIDATES:
        return {}
    return {
        (pod_set.name, pick.flavor): pod_set.unplaced or "; ".join(pod_set.reasons)
        for pod_set in flavors.pod_sets
        for pick in pod_set.picks.values()
        if pick.mode < Mode.FIT
    }


def _unplaced(flavors: FlavorAssignment, failures: Mapping[str, NoPlacement], mode: Mode) -> FlavorAssignment:
    """Returns the assignment with the message for the first pod set without a place, at most in this mode.

    If an empty cluster has no room either, the message counts the capacity of an empty cluster, because that shortage lasts.
    """
    name = next(p.name for p in flavors.pod_sets if p.name in failures)
    message = failures[name].message
    why = Reason.WAITING_FOR_QUOTA if failures[name].quota else Reason.TOPOLOGY_PLACEMENT_FAILED

    def with_reason(pod_set: PodSetFlavors) -> PodSetFlavors:
        if pod_set.name != name:
            return pod_set
        picks = {resource: replace(pick, mode=min(pick.mode, mode)) for resource, pick in pod_set.picks.items()}
        reasons = tuple(text for text in pod_set.reasons if text != pod_set.unplaced)
        return replace(
            pod_set,
            picks=picks,
            reasons=(*reasons, message),
            reason=pod_set.reason or why,
            unplaced=message,
        )

    return replace(flavors, pod_sets=tuple(with_reason(pod_set) for pod_set in flavors.pod_sets))


def _all_placed_preempt(flavors: FlavorAssignment) -> FlavorAssignment:
    """Marks pod sets with topology as preempting: they compete with the victims for nodes even if their quota fits."""

    def at_most(pod_set: PodSetFlavors) -> PodSetFlavors:
        if pod_set.topology is None:
            return pod_set
        picks = {name: replace(pick, mode=min(pick.mode, Mode.PREEMPT)) for name, pick in pod_set.picks.items()}
        return replace(pod_set, picks=picks)

    return replace(flavors, pod_sets=tuple(at_most(pod_set) for pod_set in flavors.pod_sets))
