"""What would free a domain for a waiting workload, if more workloads allowed moves, in words for its status."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from admission.engine.features.moves.movers import Mover, mover_of
from admission.engine.features.moves.plan import PlanOptions, plan
from admission.engine.features.moves.plans import MovePlan
from admission.engine.features.moves.waiting import lost_by_waiting
from admission.engine.features.moves.wording import NAMED
from admission.engine.ledger.ledger import Ledger
from admission.engine.listed import listed
from admission.engine.model import Admission, Workload
from admission.engine.topology.tree.tree_spec import Values


@dataclass(frozen=True, slots=True)
class MoveHint:
    """`movers` would leave `domain`. Of these, `undeclared` are not declared movable; `queues` are their ClusterQueues.

    If all are, the moves would lose `cost` device-seconds, more than the gang loses by waiting (`wait`).
    """

    domain: Values
    movers: tuple[str, ...]
    undeclared: tuple[str, ...]
    queues: tuple[str, ...]
    cost: int = 0
    wait: int = 0

    def text(self, *, enabled: bool) -> str:
        """Returns the hint as a sentence without a full stop. `enabled`: the controller makes moves (`controller.moves`)."""
        where = "/".join(self.domain) or "its place"
        if enabled and not self.undeclared:
            lost = f"their moves would lose {self.cost} device-seconds of work, and its wait loses {self.wait} at most"
            return f"{listed(self.movers, NAMED)} could leave {where} for other places, and stay: {lost}"
        ways = []
        if self.undeclared:
            on = f"{listed(self.undeclared, NAMED)} or on ClusterQueue {listed(self.queues, NAMED)}"
            ways.append(f'the annotation stowage.dev/movable: "true" were on {on}')
        if not enabled:
            ways.append("the setting controller.moves were on")
        return f"{listed(self.movers, NAMED)} would leave {where} for other places if {' and '.join(ways)}"


def move_hint(
    ledger: Ledger,
    gang: Workload,
    now: float,
    pause: Callable[[], None],
    *,
    enabled: bool,
    latest: float | None = None,
) -> MoveHint | None:
    """Returns the moves that would let the gang start and are not allowed now; None if there are none.

    Nothing but the permission is assumed: minimum run times, places and quota are as they are. `latest` is when the gang starts
    at the latest without moves (epoch seconds), None if unknown.
    """
    result = plan(ledger, gang, now, PlanOptions(anyone=True, pause=pause))
    if not isinstance(result, MovePlan) or result.admission is None:
        return None
    keys = tuple(move.workload for move in result.moves)
    undeclared = tuple(key for key in keys if not isinstance(mover_of(ledger, key, now, {}), Mover))
    wait = 0 if latest is None else lost_by_waiting(gang, latest - now)
    if enabled and not undeclared and (latest is None or result.cost <= wait):
        return None
    queues = sorted({move.before.cluster_queue for move in result.moves if move.workload in undeclared})
    return MoveHint(_domain(ledger, result.admission), keys, undeclared, tuple(queues), result.cost, wait)


def _domain(ledger: Ledger, admission: Admission) -> Values:
    """Returns the path of the domain that has all of the first pod set's pods, at the lowest level where one has."""
    placed = next((got for got in admission.pod_sets if got.assignment is not None), None)
    if placed is None or placed.assignment is None:
        return ()
    tree = ledger.capacity.trees.get(ledger.allocations.flavor_of(placed))
    if tree is None:
        return ()
    paths = []
    for domain in placed.assignment.domains:
        row = tree.domain_row(domain.values)
        if row is None:
            return ()
        paths.append(tree.levels[-1].paths[row])
    common: list[str] = []
    for values in zip(*paths, strict=False):
        if len(set(values)) > 1:
            break
        common.append(values[0])
    return tuple(common)
