"""Checks a plan against the ledger as it is now, and takes its places: all of them or none.

Between the plan and this step the cluster may have changed. A place counts as free only beside everything that runs, every
reservation, and the other new places. Afterwards each mover is charged at its new place; its bound pods count where they are
until they have ended, so both places are taken. The gang's place and quota are held (ledger/holds.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from admission.engine.features.moves.blockers import may_evict
from admission.engine.features.moves.movers import Mover, mover_of
from admission.engine.features.moves.plans import MovePlan
from admission.engine.ledger.holds import BESIDE, Hold, HoldKind
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Admission, ObjectRemoved, RemovedKind, Workload

Reserved = Iterable[tuple[Workload, Admission]]
"""Waiting workloads with what is reserved for each."""


def commit(
    ledger: Ledger,
    gang: Workload | None,
    plan: MovePlan,
    now: float,
    left: Mapping[str, int],
    reserved: Reserved = (),
    leaving: Collection[str] = (),
    *,
    bound: bool = True,
) -> str | None:
    """Takes the places of the plan; returns None, or why it no longer holds, and then nothing is changed.

    `gang` is the waiting workload as it is now, None for a plan that makes a domain free. `left` and `bound` are as of
    `movers_of`. `leaving` are others that move or are evicted already: the gang may have their old places.
    """
    if (why := _changed(ledger, plan, now, left, bound=bound) or unevictable(ledger, gang, plan)) is not None:
        return why
    with ledger.trial():
        for owner, admission in reserved:
            ledger.holds.put(Hold.of(HoldKind.CAPACITY_RESERVATION, owner, admission, BESIDE).on_nodes())
        for move in plan.moves:
            mover = ledger.workload(move.workload)
            if mover is None or not holds(ledger, mover, move.after):
                return f"the new place of {move.workload} is no longer free"
        remove(ledger, leaving)
        for leaves in (*(move.workload for move in plan.moves), *(one.victim.workload for one in plan.evictions)):
            ledger.simulate_removal(leaves)
        if gang is not None and plan.admission is not None:
            if not ledger.quota.fits(gang.cluster_queue, plan.admission.usage()):
                return f"the quota for {gang.key} is no longer free"
            if not holds(ledger, gang, plan.admission):
                return f"the place for {gang.key} would not be free"
    for move in plan.moves:
        if (mover := ledger.workload(move.workload)) is not None:
            ledger.charge(mover, move.after)
    if gang is not None and plan.admission is not None:
        ledger.holds.put(Hold.of(HoldKind.PLACE, gang, plan.admission))
    return None


def _changed(ledger: Ledger, plan: MovePlan, now: float, left: Mapping[str, int], *, bound: bool) -> str | None:
    """Returns which mover is no longer what was planned with; None if all are."""
    for move in plan.moves:
        mover = mover_of(ledger, move.workload, now, left, bound=bound)
        if not isinstance(mover, Mover):
            return f"{move.workload} may no longer be moved: {mover}"
        if mover.admission != move.before:
            return f"{move.workload} has another place by now"
    for queue, count in sorted(Counter(move.before.cluster_queue for move in plan.moves).items()):
        if count > left.get(queue, count):
            return f"the moves of ClusterQueue {queue} are used up for today"
    return None


def unevictable(ledger: Ledger, gang: Workload | None, plan: MovePlan) -> str | None:
    """Returns which workload that still runs the gang may no longer evict; None if it may evict all."""
    queue = None if gang is None else ledger.quota.spec(gang.cluster_queue)
    for one in plan.evictions:
        victim, admission = ledger.workload(one.victim.workload), ledger.admission(one.victim.workload)
        if victim is None or admission is None or victim.evicted:
            continue  # it leaves by itself
        if gang is None or queue is None or admission.cluster_queue != queue.name or not may_evict(gang, queue, victim):
            return f"{one.victim.workload} may no longer be evicted"
    return None


def holds(ledger: Ledger, workload: Workload, admission: Admission) -> bool:
    """In a trial: takes the places, pod set by pod set; False if one is not free."""
    for index, got in enumerate(admission.pod_sets):
        if got.assignment is None:
            continue
        alone = Admission(admission.cluster_queue, (replace(got, usage={}),))
        if not ledger.placement.fits(workload, alone):
            return False
        ledger.holds.put(Hold.of(HoldKind.NEW_PLACE, workload, alone, str(index)))
    return True


def remove(ledger: Ledger, leaving: Collection[str]) -> None:
    """In a trial: takes the evicted ones of these away altogether, and movers from their old places."""
    for key in sorted(leaving):
        if (workload := ledger.workload(key)) is not None and workload.evicted:
            ledger.simulate_removal(key)
            continue
        for pod in ledger.allocations.pods_with_surplus(key):
            if pod not in ledger.allocations.slot_of:
                ledger.apply(ObjectRemoved(RemovedKind.POD, pod))
