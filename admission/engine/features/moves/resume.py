"""The rest of a plan that the previous leader did not finish: what it still lacks once the workloads on their way have left.

A new leader uses it (controllers/moves/take_over.py). Where the movers go is in their statuses, where the gang goes is in none.
Each answer is computed in a trial in which all of them have left.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Final

from admission.engine.cycle.nomination import Nomination
from admission.engine.cycle.solve import flavors_of, place
from admission.engine.features.moves.blockers import Limits, with_evictions
from admission.engine.features.moves.choice import plan_with_evictions
from admission.engine.features.moves.commit import holds, remove
from admission.engine.features.moves.movers import Mover, Movers, mover_of
from admission.engine.features.moves.plan import PlanOptions
from admission.engine.features.moves.plans import MovePlan
from admission.engine.flavors.assign import FlavorAssignment, Mode
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Admission, ClusterQueue, PlacementRequest, Workload
from admission.engine.pauses import Around, no_pause_around
from admission.engine.requests import placement_requests

_FEW: Final = 400
"""Sets that are examined for evictions alone: no cycle runs meanwhile (plan.py)."""


def place_after_moves(ledger: Ledger, gang: Workload, leaving: Collection[str], now: float) -> Admission | None:
    """Returns the gang's admission as it will be when the workloads on their way have left their old places; None without one.

    `leaving` are workloads that move or are evicted.
    """
    with _left(ledger, leaving):
        asked = _asked(ledger, gang, now)
        if asked is None:
            return None
        _, flavors, requests = asked
        result = place(ledger, requests)
    return Nomination(gang, flavors, result.assignments).admission() if result.fits else None


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


def moves_after_moves(
    ledger: Ledger,
    gang: Workload,
    leaving: Collection[str],
    now: float,
    left: Mapping[str, int],
    around: Around = no_pause_around,
) -> MovePlan | None:
    """Returns the moves, with evictions if need be, that a plan still lacks of whose moves only some were made.

    `left` is as of `movers_of`, the rest as of `evictions_after_moves`. To be checked (commit.py) before it is made.
    """
    with _left(ledger, leaving, around) as pause:
        result = plan_with_evictions(ledger, gang, now, PlanOptions(left, bound=True, pause=pause))
    return result if isinstance(result, MovePlan) else None


def _still_fits(ledger: Ledger, gang: Workload, leaving: Collection[str], plan: MovePlan) -> bool:
    """Reports whether the gang has quota and its place once these and the victims have left, whatever changed in the pauses."""
    if plan.admission is None:
        return False
    with _left(ledger, leaving):
        for one in plan.evictions:
            ledger.simulate_removal(one.victim.workload)
        return ledger.quota.fits(gang.cluster_queue, plan.admission.usage()) and holds(ledger, gang, plan.admission)


def _asked(
    ledger: Ledger, gang: Workload, now: float
) -> tuple[ClusterQueue, FlavorAssignment, list[PlacementRequest]] | None:
    """Returns the gang's queue, its flavors and what it asks of them; None if it may not start or lacks quota."""
    queue = ledger.quota.spec(gang.cluster_queue)
    if queue is None or gang.blocked is not None:
        return None
    flavors = flavors_of(ledger, gang, queue)
    return (
        (queue, flavors, placement_requests(gang, queue, flavors, ledger.flavors, now))
        if flavors.mode >= Mode.FIT
        else None
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
        remove(ledger, leaving)
        yield
