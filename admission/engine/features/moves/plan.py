"""Plans the moves that let a waiting gang start: the entry of this package.

1. The gang's flavors are those that quota allows; moves free no quota. A flavor on which no plan exists is refused, and the
   next one is tried, as in an admission cycle.
2. The gang requests more than all that is free: no plan can exist, since everything that runs goes on running.
3. Otherwise the domains are searched for the cheapest set of movers (search.py).

The ledger is unchanged. The same ledger, time and options always give the same answer: a budget bounds the work, not time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from admission.engine.cycle.nomination import Nomination
from admission.engine.cycle.solve import flavors_of, place, refusals
from admission.engine.decision import Proof
from admission.engine.features.moves.blockers import Limits, with_evictions
from admission.engine.features.moves.movers import Movers, movers_of
from admission.engine.features.moves.new_places import NewPlaces
from admission.engine.features.moves.plans import MovePlan, NoPlan, NoPlanReason
from admission.engine.features.moves.search import BestMoves, DomainSearch, search
from admission.engine.features.moves.waiting import lost_by_waiting
from admission.engine.flavors.assign import FlavorAssignment, Mode
from admission.engine.flavors.search import Scope
from admission.engine.ledger.holds import LABEL_BESIDE_PODS
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import PlacementRequest, Workload, to_text
from admission.engine.pauses import no_pause
from admission.engine.requests import placement_requests
from admission.engine.topology.count import free_amounts

BUDGET: Final = 4_000
"""Default number of sets that one plan examines; a placement counts as 25."""
MOST_FLAVORS: Final = 8


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """Limits of a plan. `left` is the number of moves that each ClusterQueue may still make today; others have no limit.

    `budget` bounds the sets that are examined. `wait` is how many seconds the gang would wait without moves, None if
    unknown: a plan that loses more work than the gang loses in that time is not returned. `bound`: only workloads whose
    pods are all bound move. `anyone`: all move, as if they allowed it. `pause` is called often, outside of trials; the
    ledger may change meanwhile, so that the plan must be checked before it is carried out (commit.py), and a domain or
    workload that disappears may raise LookupError. `evict`: blockers that the gang may evict may leave that way, too
    (blockers.py).
    """

    left: Mapping[str, int] = field(default_factory=dict)
    budget: int = BUDGET
    wait: float | None = None
    bound: bool = False
    anyone: bool = False
    pause: Callable[[], None] = no_pause
    evict: bool = False


def plan(ledger: Ledger, gang: Workload, now: float, options: PlanOptions | None = None) -> MovePlan | NoPlan:
    """Returns the cheapest moves found that let the gang start, or why there are none. `now` is in epoch seconds."""
    options = options or PlanOptions()
    if gang.blocked is not None:
        return NoPlan(NoPlanReason.BLOCKED, gang.blocked[1])
    queue = ledger.quota.spec(gang.cluster_queue)
    if queue is None:
        return NoPlan(NoPlanReason.QUOTA, f"ClusterQueue {gang.cluster_queue} doesn't exist")
    if gang.gang is not None and (gang.gang.joins or len(gang.gang.together) > 1):
        return NoPlan(NoPlanReason.NOT_COUNTED, "it starts together with other gangs, for which no moves are planned")
    refused: dict[tuple[str, str], str] = {}
    movers, why = _movers(ledger, now, options), None
    for _ in range(MOST_FLAVORS):
        flavors = flavors_of(ledger, gang, queue, Scope(refused))
        if flavors.mode < Mode.FIT:
            break
        requests = placement_requests(gang, queue, flavors, ledger.flavors, now)
        options.pause()
        result = place(ledger, requests)
        if result.fits:
            return NoPlan(NoPlanReason.FITS, "it fits without moves")
        refused.update(refusals(requests, result.failures))
        if options.evict and not movers.by_key:
            planned: MovePlan | NoPlan = NoPlan(NoPlanReason.NOT_MOVABLE, "no workload may be moved")
        elif options.evict:
            limits = Limits(options.left, options.budget, options.pause)
            planned = with_evictions(ledger, gang, queue, flavors, requests, movers, now, limits)
        else:
            planned = _on_flavors(ledger, gang, flavors, requests, movers, options)
        if isinstance(planned, MovePlan):
            return _worth(planned, gang, options)
        why = why or planned
    return why or NoPlan(NoPlanReason.QUOTA, flavors.message())


def _movers(ledger: Ledger, now: float, options: PlanOptions) -> Movers:
    return movers_of(ledger, now, options.left, bound=options.bound, anyone=options.anyone, pause=options.pause)


def _on_flavors(
    ledger: Ledger,
    gang: Workload,
    flavors: FlavorAssignment,
    requests: Sequence[PlacementRequest],
    movers: Movers,
    options: PlanOptions,
) -> MovePlan | NoPlan:
    """Returns the plan with these flavors."""
    stays = movers.staying(ledger, {request.flavor for request in requests})
    options.pause()
    empty = place(ledger, requests, empty=True)
    if not empty.fits:
        return NoPlan(NoPlanReason.NEVER, "; ".join(failed.message for failed in empty.failures.values()))
    if (short := _shortage(ledger, requests)) is not None:
        return NoPlan(NoPlanReason.TOO_LITTLE_FREE, short, stays)
    if not movers.by_key:
        return NoPlan(NoPlanReason.NOT_MOVABLE, "no workload may be moved", stays)
    options.pause()
    gains = ledger.placement.eviction_gains(requests, _present(ledger, movers, options.pause), options.pause)
    if gains is None:
        causes = f"{LABEL_BESIDE_PODS}, pod terms, or pods that stay"
        text = f"the capacity that moves would free cannot be counted: {causes}"
        return NoPlan(NoPlanReason.NOT_COUNTED, text, stays)
    if not gains.domains:
        text = "in no domain do the workloads that may be moved hold enough"
        return NoPlan(NoPlanReason.NOT_MOVABLE, text, stays)
    searches = []
    for domain in gains.domains:
        options.pause()
        inside = [movers.by_key[key] for key in sorted(domain.gain)]
        searches.append(DomainSearch(domain, inside, options.left, exact=gains.exact, together=gains.together))
    best, new_places = BestMoves(options.budget, pause=options.pause), NewPlaces(ledger, requests, options.pause)
    options.pause()
    search(searches, new_places, best)
    if best.places is None:
        return _none_found(best, stays)
    admission = Nomination(gang, flavors, best.places.gang).admission()
    return MovePlan(best.places.moves, best.certificate(), gang.key, admission)


def _present(ledger: Ledger, movers: Movers, pause: Callable[[], None]) -> Iterator[str]:
    """Yields the movers that still run when it is their turn."""
    for key in list(movers.by_key):
        pause()
        if key in ledger.admissions:
            yield key


def _shortage(ledger: Ledger, requests: Sequence[PlacementRequest]) -> str | None:
    """Returns the first resource of which the gang requests more than is free on all nodes of its flavor; None if none."""
    for flavor in sorted({request.flavor for request in requests}):
        wanted: dict[str, int] = {}
        for request in requests:
            if request.flavor == flavor:
                for name, amount in request.pod_set.requests.items():
                    wanted[name] = wanted.get(name, 0) + amount * request.count
        tree = ledger.capacity.trees[flavor]
        free = free_amounts(tree, wanted, simulate_empty=False)
        for name in sorted(wanted):
            column = tree.columns.index.get(name)
            rows = None if column is None else free.get(column)
            have = 0 if rows is None else int(rows[tree.rows.alive[: len(rows)]].clip(min=0).sum())
            if have < wanted[name]:
                amounts = f"{to_text(name, have)} {name} free and {to_text(name, wanted[name])} requested"
                return f"moves cannot help: flavor {flavor} has {amounts}, wherever they are"
    return None


def _none_found(best: BestMoves, stays: Mapping[str, int]) -> NoPlan:
    certificate = best.certificate()
    if certificate.proof is Proof.FEASIBLE and best.spent:
        text = "the search ended at its budget before it found moves"
        return NoPlan(NoPlanReason.BUDGET, text, stays, best.expanded)
    if best.crowded:
        text = "no other places were found that are free together for the workloads that would have to move"
        return NoPlan(NoPlanReason.NO_OTHER_PLACE, text, stays, best.expanded)
    text = "in every domain, a workload that would have to move has no other place or no move left today"
    return NoPlan(NoPlanReason.NO_OTHER_PLACE, text, stays, best.expanded)


def _worth(plan: MovePlan, gang: Workload, options: PlanOptions) -> MovePlan | NoPlan:
    """Returns the plan unless the gang loses less by waiting."""
    if options.wait is None:
        return plan
    waits = lost_by_waiting(gang, options.wait)
    if plan.cost <= waits:
        return plan
    text = f"the moves would lose {plan.cost} device-seconds of work, the gang's wait only {waits}"
    return NoPlan(NoPlanReason.TOO_EXPENSIVE, text, expanded=plan.certificate.expanded)
