"""The moves that a process finds when it begins to lead, and for which waiting workloads they were made.

A mover's condition names the workload, so that it is known once one move is written. A name there, or a message on the waiting
workload, may have been written by others: the place is computed again, and evictions follow the rules of preemption.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from admission.controllers.moves.places import GRACE
from admission.controllers.state.moving import for_whom
from admission.engine.features.moves.feature import PLACE_HELD
from admission.engine.ledger.ledger import Ledger
from api.kube.turns import Turns
from api.meta import find_condition
from api.names import QUOTA_RESERVED
from api.workloads import Workload


@dataclass(frozen=True, slots=True)
class Unfinished:
    """`movers` are on their way, `leaving` has them and the evicted workloads. `gangs`: for these, others move or just have."""

    movers: tuple[str, ...]
    leaving: frozenset[str]
    gangs: frozenset[str]

    @classmethod
    async def of(cls, ledger: Ledger, objects: Mapping[str, Workload], now: float) -> Self:
        """Reads the statuses at `now` (epoch seconds), in turns of the loop."""
        movers, evicted, gangs, turns = list[str](), list[str](), set[str](), Turns()
        for key in list(ledger.admissions):
            await turns.give_way()
            if (one := ledger.workload(key)) is None:
                continue
            if one.restart.moving:
                movers.append(key)
            if one.evicted:
                evicted.append(key)
            if one.restart.moving or (one.restart.moved is not None and now - one.restart.moved <= GRACE):
                gangs.add("" if (mover := objects.get(key)) is None else for_whom(mover.status))
        return cls(tuple(sorted(movers)), frozenset((*movers, *evicted)), frozenset(gangs - {""}))

    @property
    def victims(self) -> frozenset[str]:
        """The evicted workloads whose pods have not all ended."""
        return self.leaving.difference(self.movers)

    def is_for(self, key: str, objects: Mapping[str, Workload]) -> bool:
        """Reports whether others leave their places for this waiting workload."""
        return key in self.gangs or (bool(self.leaving) and _was_held(objects.get(key)))


NONE_UNFINISHED: Final = Unfinished((), frozenset(), frozenset())


def _was_held(workload: Workload | None) -> bool:
    reserved = None if workload is None else find_condition(workload.status.conditions, QUOTA_RESERVED)
    return reserved is not None and reserved.status == "False" and reserved.message.startswith(PLACE_HELD)
