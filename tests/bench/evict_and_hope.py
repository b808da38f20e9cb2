"""Room for gangs as a descheduler makes it: evict the least-filled rack, hold nothing, and hope that the gang gets it.

It looks every `every` seconds (a descheduler's usual interval is five minutes) for the first workload in the order of the
queues that lacks a place. Of the racks whose workloads may all be moved and have run for their minimum time, it evicts the one
with the least work running. They are queued again under their old times and go wherever they fit, also back into the rack.
"""

from __future__ import annotations

from admission.engine.decision import Preempt, Wait
from admission.engine.features.moves.free_hosts import slots_at
from admission.engine.features.moves.movers import movers_of
from admission.engine.features.moves.plan_times import PlanTimes
from admission.engine.model import PodSet, Workload
from admission.engine.reasons import Reason
from admission.engine.topology.tree.tree import Tree
from admission.simulation.moves.maker import AFTER
from admission.simulation.room_maker import Stage


class EvictAndHope:
    """The room maker of such a simulation."""

    def __init__(self, stage: Stage, every: float = 300.0) -> None:
        self._stage, self._world, self._every = stage, stage.world, every
        self._times = PlanTimes(stage.world.queues, AFTER)
        self._next = stage.world.now + every

    def waits(self, decision: Wait) -> None:
        """Notes a workload that lacks a place."""
        if decision.reason is Reason.TOPOLOGY_PLACEMENT_FAILED and not decision.never:
            self._times.waits(decision.workload, self._world.now)

    def instead(self, decision: Preempt) -> bool:
        """Leaves evictions to the queues."""
        return False

    def due(self) -> float | None:
        """Returns the next look, if anything lacks a place by then."""
        at = self._times.next(frozenset())
        return None if at is None else max(at, self._next)

    def look(self) -> bool:
        """Evicts the workloads of one rack."""
        self._next = self._world.now + self._every
        gang = self._times.first(self._world.now, frozenset())
        found = None if gang is None else self._rack_for(gang)
        for key in found or ():
            self._stage.evict(key)
        return bool(found)

    def _rack_for(self, gang: Workload) -> list[str] | None:
        """Returns the workloads of the least-filled rack of the flavors with the gang's level."""
        level = next(filter(None, map(_level, gang.pod_sets)), None)
        for flavor, tree in sorted(self._world.ledger.capacity.trees.items()):
            number = None if level is None else tree.level_of(level)
            if number is not None and (found := self._emptied(flavor, tree, number)) is not None:
                return found
        return None

    def _emptied(self, flavor: str, tree: Tree, number: int) -> list[str] | None:
        ledger, inside = self._world.ledger, dict[int, set[str]]()
        movers, slots = movers_of(ledger, self._world.now, {}).by_key, slots_at(tree, number)
        for key in ledger.admissions:
            cells = ledger.footprint(key).get(flavor)
            for row in () if cells is None else set(cells.rows.tolist()):
                inside.setdefault(slots[row], set()).add(key)
        racks = [(sum(movers[key].size for key in own), slot) for slot, own in inside.items() if own <= movers.keys()]
        return sorted(inside[min(racks)[1]]) if racks else None


def _level(pod_set: PodSet) -> str | None:
    if pod_set.topology is None:
        return None
    if pod_set.topology.slices:
        return pod_set.topology.slices[0].level
    return pod_set.topology.required
