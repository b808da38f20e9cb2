"""Moves and evictions in one plan: each workload that is in the way of a domain moves, or is evicted where the policy allows.

For a gang whose quota fits and whose place is missing. A blocker that may be moved goes to another place; one that the gang may
evict (`withinClusterQueue` of its ClusterQueue) may leave that way instead. All blockers of a domain leave, or none. The
objective, most important first:

1. `top`: the highest priority among the evicted workloads (none at all is least); `at_top`: how many of them have it;
2. `evictions`: how many are evicted; `priorities`: the sum of their priorities;
3. `lost`: the device-seconds of work that all lose, moved or evicted; `moves`: how many move.

So moves alone come before any eviction; preemption/cost.py ranks evictions the same way. The levels of `top` are searched in
ascending order. Within a level the other figures are sums, which one integer holds digit by digit (`_Figures`), so search.py
with its bounds finds the least of them. A victim leaves last, and no mover gets what it frees: the new places are free while
all still run, as in a plan of moves alone. Without a move, the plan is what preemption does by itself.

The certificate's cost and bound are (top, at_top, evictions, priorities, lost, moves).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from admission.engine.cycle.nomination import Nomination
from admission.engine.cycle.solve import place
from admission.engine.decision import Certificate, PreemptionReason, Proof, Victim
from admission.engine.features.moves.movers import Mover, Movers, loss
from admission.engine.features.moves.new_places import NewPlaces
from admission.engine.features.moves.plans import MovePlan, NoPlan, NoPlanReason, PlannedEviction
from admission.engine.features.moves.search import BestMoves, DomainSearch, MoveCost, search
from admission.engine.flavors.assign import FlavorAssignment
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import ClusterQueue, PlacementRequest, Workload
from admission.engine.preemption.candidates import PreemptionContext, allowed, of_own_queue
from admission.engine.preemption.cost import FREE

MOST_LEVELS: Final = 8
"""Levels of priority that are searched, lowest first."""


@dataclass(frozen=True, slots=True)
class Limits:
    """As the fields of PlanOptions."""

    left: Mapping[str, int]
    budget: int
    pause: Callable[[], None]


def may_evict(gang: Workload, queue: ClusterQueue, victim: Workload) -> bool:
    """Reports whether a plan of moves for the gang may evict this admitted workload of the gang's ClusterQueue.

    Of gangs that start together all would have to leave, and elastic quotas have rules of their own.
    """
    policy = queue.preemption
    return (
        not gang.gated
        and not policy.keeps_nominal
        and not victim.evicted
        and victim.gang is None
        and not victim.replaces
        and not victim.restart.moving
        and allowed(gang, victim, policy.within_cluster_queue)
    )


def with_evictions(
    ledger: Ledger,
    gang: Workload,
    queue: ClusterQueue,
    flavors: FlavorAssignment,
    requests: Sequence[PlacementRequest],
    movers: Movers,
    now: float,
    limits: Limits,
) -> MovePlan | NoPlan:
    """Returns the best plan found with these flavors, which quota allows, or why there is none."""
    victims = _victims(ledger, gang, queue, flavors, requests, now, limits.pause)
    if not victims:
        return NoPlan(NoPlanReason.NOT_MOVABLE, "no workload may be evicted for it")
    limits.pause()
    if not place(ledger, requests, empty=True).fits:
        return NoPlan(NoPlanReason.NEVER, "it would not fit either if no workload ran")
    limits.pause()
    present = _present(ledger, {*movers.by_key, *victims}, limits.pause)
    gains = ledger.placement.eviction_gains(requests, present, limits.pause)
    if gains is None:
        return NoPlan(NoPlanReason.NOT_COUNTED, "the capacity that its blockers would free cannot be counted")
    limits.pause()
    figures = _Figures.of(movers, victims)
    spent, unproved = 0, None
    for top in sorted({one.workload.priority for one in victims.values()})[:MOST_LEVELS]:
        blockers = figures.blockers(movers, victims, top)
        best, new_places = (
            BestMoves(limits.budget - spent, pause=limits.pause),
            NewPlaces(ledger, requests, limits.pause),
        )
        searches = []
        for domain in gains.domains:
            limits.pause()
            inside = [one for key in sorted(domain.gain) for one in blockers.get(key, ())]
            searches.append(DomainSearch(domain, inside, limits.left, exact=gains.exact, together=gains.together))
        search(searches, new_places, best)
        spent += best.expanded
        if best.places is not None:
            evictions = tuple(PlannedEviction(_victim(one), one.cost) for one in best.places.evicted)
            admission = Nomination(gang, flavors, best.places.gang).admission()
            certificate = figures.certificate(best, top, unproved, spent)
            return MovePlan(best.places.moves, certificate, gang.key, admission, evictions=evictions)
        if best.floors and unproved is None:
            unproved = figures.read(min(best.floors), top)
        if spent >= limits.budget:
            return NoPlan(NoPlanReason.BUDGET, "the search ended at its budget before it found a plan", expanded=spent)
    text = "the workloads that would have to leave have no other places, and too few of them may be evicted for it"
    return NoPlan(NoPlanReason.NO_OTHER_PLACE, text, expanded=spent)


def _victims(
    ledger: Ledger,
    gang: Workload,
    queue: ClusterQueue,
    flavors: FlavorAssignment,
    requests: Sequence[PlacementRequest],
    now: float,
    pause: Callable[[], None],
) -> dict[str, Mover]:
    """Returns the workloads that the gang may evict, by key."""
    node = ledger.quota.node(queue.name)
    if node is None or queue.preemption.within_cluster_queue == "Never":
        return {}
    context = PreemptionContext(gang, queue, node, flavors.usage, frozenset(flavors.usage), requests, now)
    out = {}
    for one in of_own_queue(ledger, context):
        pause()
        admission = ledger.admission(one.key)
        if admission is not None and may_evict(gang, queue, one.workload):
            size = one.workload.devices
            lost = loss(ledger, one.key, now)
            out[one.key] = Mover(one.workload, admission, (), lost, size, PreemptionReason.IN_CLUSTER_QUEUE)
    return out


def _present(ledger: Ledger, keys: set[str], pause: Callable[[], None]) -> Iterator[str]:
    for key in sorted(keys):
        pause()
        if key in ledger.admissions:
            yield key


def _victim(mover: Mover) -> Victim:
    return Victim(mover.key, mover.claim or PreemptionReason.IN_CLUSTER_QUEUE)


@dataclass(frozen=True, slots=True)
class _Figures:
    """The figures of a level as digits of one integer: at_top, evictions, priorities above `least`, lost.

    Each base is larger than the sum of all that is counted in its digit, so sums of integers are sums of figures.
    """

    count: int
    priorities: int
    lost: int
    least: int

    @classmethod
    def of(cls, movers: Movers, victims: Mapping[str, Mover]) -> _Figures:
        """Returns the bases for these workloads."""
        least = min(one.workload.priority for one in victims.values())
        lost = sum(one.cost for one in (*movers.by_key.values(), *victims.values()))
        priorities = sum(one.workload.priority - least for one in victims.values())
        return cls(len(victims) + 1, priorities + 1, lost + 1, least)

    def blockers(self, movers: Movers, victims: Mapping[str, Mover], top: int) -> dict[str, list[Mover]]:
        """Returns, by key, the movers, and the victims of priority `top` or lower, with their figures."""
        by_key = {key: [one] for key, one in movers.by_key.items()}
        for one in victims.values():
            priority = one.workload.priority
            if priority <= top:
                digits = int(priority == top) * self.count + 1
                ranked = (digits * self.priorities + priority - self.least) * self.lost + one.cost
                by_key.setdefault(one.key, []).append(replace(one, ranked=ranked))
        return by_key

    def read(self, cost: MoveCost, top: int) -> tuple[int, ...]:
        """Returns the figures of a cost of the search."""
        rest, lost = divmod(cost[0], self.lost)
        rest, priorities = divmod(rest, self.priorities)
        at_top, evictions = divmod(rest, self.count)
        if not evictions:
            return (FREE.top, 0, 0, 0, lost, cost[1])
        return (top, at_top, evictions, priorities + evictions * self.least, lost, max(0, cost[1] - evictions))

    def certificate(self, best: BestMoves, top: int, unproved: tuple[int, ...] | None, expanded: int) -> Certificate:
        """Returns the certificate; `unproved` is the bound of the first lower level without a proof."""
        of_moves = best.certificate()
        cost, bound = (
            self.read((of_moves.cost[0], of_moves.cost[1]), top),
            self.read((of_moves.bound[0], of_moves.bound[1]), top),
        )
        bound = bound if unproved is None else min(bound, unproved)
        return Certificate(Proof.OPTIMAL if bound == cost else Proof.FEASIBLE, cost, bound, expanded)
