"""Checks a plan against the ledger as it is now, and takes its places: all of them or none.

Between the plan and this step the cluster may have changed. A place counts as free only beside everything that runs, every
reservation, and the other new places. Afterwards each mover is charged at its new place; its bound pods count where they are
until they have ended, so both places are taken. The gang's place and quota are held (cycle/held_places.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Final

from admission.engine.cycle.held_places import hold_place
from admission.engine.cycle.nomination import Nomination
from admission.engine.cycle.solve import flavors_of, place
from admission.engine.flavors.assign import FlavorAssignment, Mode
from admission.engine.ledger import Ledger
from admission.engine.model import Admission, ClusterQueue, ObjectRemoved, PlacementRequest, RemovedKind, Workload
from admission.engine.moves.blockers import Limits, may_evict, with_evictions
from admission.engine.moves.movers import Mover, Movers, mover_of
from admission.engine.moves.plans import MovePlan
from admission.engine.pauses import Around, no_pause_around
from admission.engine.requests import placement_requests

Reserved = Iterable[tuple[Workload, Admission]]
"""Waiting workloads with what is reserved for each."""
_FEW: Final = 400
"""Sets that are examined by a process that takes over, which runs no cycle meanwhile (plan.py)."""


def commit(
    ledger: Ledger,
    gang: Workload | None,
    made: MovePlan,
    now: float,
    left: Mapping[str, int],
    reserved: Reserved = (),
    *,
    bound: bool = True,
) -> str | None:
    """Takes the places of the plan; returns None, or why it no longer holds, and then nothing is changed.

    `gang` is the waiting workload as it is now, None for a plan that makes a domain free. `left` and `bound` are as of
    `movers_of`.
    """
    if (why := _changed(ledger, made, now, left, bound=bound) or unevictable(ledger, gang, made)) is not None:
        return why
    with ledger.trial():
        for owner, admission in reserved:
            places = tuple(replace(got, usage={}) for got in admission.pod_sets)
            own = replace(owner, key=f"{owner.key} (reserved)", admission=None, gang=None)
            ledger.hold(own, replace(admission, pod_sets=places))
        for move in made.moves:
            mover = ledger.workload(move.workload)
            if mover is None or not _holds(ledger, mover, move.after):
                return f"the new place of {move.workload} is no longer free"
        for leaves in (*(move.workload for move in made.moves), *(one.victim.workload for one in made.evictions)):
            ledger.simulate_removal(leaves)
        if gang is not None and made.admission is not None:
            if not ledger.quota.fits(gang.cluster_queue, made.admission.usage()):
                return f"the quota for {gang.key} is no longer free"
            if not _holds(ledger, gang, made.admission):
                return f"the place for {gang.key} would not be free"
    for move in made.moves:
        if (mover := ledger.workload(move.workload)) is not None:
            ledger.charge(mover, move.after)
    if gang is not None and made.admission is not None:
        hold_place(ledger, gang, made.admission)
    return None


def _changed(ledger: Ledger, made: MovePlan, now: float, left: Mapping[str, int], *, bound: bool) -> str | None:
    """Returns which mover is no longer what was planned with; None if all are."""
    for move in made.moves:
        mover = mover_of(ledger, move.workload, now, left, bound=bound)
        if not isinstance(mover, Mover):
            return f"{move.workload} may no longer be moved: {mover}"
        if mover.admission != move.before:
            return f"{move.workload} has another place by now"
    for queue, count in sorted(Counter(move.before.cluster_queue for move in made.moves).items()):
        if count > left.get(queue, count):
            return f"the moves of ClusterQueue {queue} are used up for today"
    return None


def unevictable(ledger: Ledger, gang: Workload | None, made: MovePlan) -> str | None:
    """Returns which workload that still runs the gang may no longer evict; None if it may evict all."""
    queue = None if gang is None else ledger.quota.spec(gang.cluster_queue)
    for one in made.evictions:
        victim, admission = ledger.workload(one.victim.workload), ledger.admission(one.victim.workload)
        if victim is None or admission is None or victim.evicted:
            continue  # it leaves by itself
        if gang is None or queue is None or admission.cluster_queue != queue.name or not may_evict(gang, queue, victim):
            return f"{one.victim.workload} may no longer be evicted"
    return None


def _holds(ledger: Ledger, workload: Workload, admission: Admission) -> bool:
    """In a trial: takes the places, pod set by pod set; False if one is not free."""
    for index, got in enumerate(admission.pod_sets):
        if got.assignment is None:
            continue
        alone = Admission(admission.cluster_queue, (replace(got, usage={}),))
        if not ledger.placement.fits(workload, alone):
            return False
        ledger.hold(replace(workload, key=f"{workload.key} (new place {index})", admission=None, gang=None), alone)
    return True


def place_after_moves(ledger: Ledger, gang: Workload, leaving: Collection[str], now: float) -> Admission | None:
    """Returns the gang's admission as it will be when the workloads on their way have left their old places; None without one.

    `leaving` are workloads that move or are evicted. For a process that takes over: the new places of movers are in their
    statuses, the gang's is in none.
    """
    with _left(ledger, leaving):
        asked = _asked(ledger, gang, now)
        if asked is None:
            return None
        _, found, requests = asked
        result = place(ledger, requests)
    return Nomination(gang, found, result.assignments).admission() if result.fits else None


def evictions_after_moves(
    ledger: Ledger,
    gang: Workload,
    leaving: Collection[str],
    now: float,
    around: Around = no_pause_around,
) -> MovePlan | None:
    """Returns the evictions that a plan still lacks whose moves were all made, and the gang's admission after them.

    None if there are none, or if one of the victims might move instead: then some of its moves were not made. `leaving` is as
    of `place_after_moves`. `around` makes the pause of the search; a domain or workload that disappears in one may raise
    LookupError.
    """
    with _left(ledger, leaving, around) as pause:
        asked = _asked(ledger, gang, now)
        if asked is None:
            return None
        made = with_evictions(ledger, gang, *asked, Movers({}), now, Limits({}, _FEW, pause))
    if not isinstance(made, MovePlan) or not _still_fits(ledger, gang, leaving, made):
        return None
    keys = (one.victim.workload for one in made.evictions)
    return None if any(isinstance(mover_of(ledger, key, now, {}, bound=False), Mover) for key in keys) else made


def _still_fits(ledger: Ledger, gang: Workload, leaving: Collection[str], made: MovePlan) -> bool:
    """Reports whether the gang has quota and its place once these and the victims have left, whatever changed in the pauses."""
    if made.admission is None:
        return False
    with _left(ledger, leaving):
        for one in made.evictions:
            ledger.simulate_removal(one.victim.workload)
        return ledger.quota.fits(gang.cluster_queue, made.admission.usage()) and _holds(ledger, gang, made.admission)


def _asked(
    ledger: Ledger, gang: Workload, now: float
) -> tuple[ClusterQueue, FlavorAssignment, list[PlacementRequest]] | None:
    """Returns the gang's queue, its flavors and what it asks of them; None if it may not start or lacks quota."""
    queue = ledger.quota.spec(gang.cluster_queue)
    if queue is None or gang.blocked is not None:
        return None
    found = flavors_of(ledger, gang, queue)
    return (
        (queue, found, placement_requests(gang, queue, found, ledger.flavors, now)) if found.mode >= Mode.FIT else None
    )


@contextmanager
def _left(ledger: Ledger, leaving: Collection[str], around: Around = no_pause_around) -> Iterator[Callable[[], None]]:
    """Opens a trial in which these have left; yields a pause, around which the trial is closed and opened anew."""
    with ExitStack() as trial:

        def enter() -> None:
            trial.enter_context(_gone(ledger, leaving))

        enter()
        yield around(trial.close, enter)


@contextmanager
def _gone(ledger: Ledger, leaving: Collection[str]) -> Iterator[None]:
    """Opens a trial in which these have left: the evicted ones altogether, movers their old places."""
    with ledger.trial():
        for key in sorted(leaving):
            if (workload := ledger.workload(key)) is not None and workload.evicted:
                ledger.simulate_removal(key)
                continue
            for pod in ledger.allocations.pods_with_surplus(key):
                if pod not in ledger.allocations.slot_of:
                    ledger.apply(ObjectRemoved(RemovedKind.POD, pod))
        yield
