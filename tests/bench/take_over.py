"""What a controller that begins to lead does about unfinished plans of moves: its longest step on the loop.

    python -m tests.bench defrag

Limit: 50 ms of CPU. The cluster of defrag.py, of whose workloads a third may be moved. Four gangs wait whose plans have moves
and evictions; the process before was killed once the moves were written. 15,000 Workloads beside were moved today.
"""

from __future__ import annotations

import asyncio
import gc
from dataclasses import dataclass, field, replace
from time import process_time
from types import SimpleNamespace
from typing import Any, Final, cast

from admission.controllers.decide.scheduler_context import SchedulerContext
from admission.controllers.moves.budgets import MoveBudgets
from admission.controllers.moves.executor import MoveExecutor
from admission.controllers.moves.places import HeldPlaces
from admission.controllers.moves.take_over import TakeOver
from admission.controllers.state import moving
from admission.controllers.watch.cluster_view import Views
from admission.engine.features.moves.commit import commit
from admission.engine.features.moves.plan import PlanOptions, plan
from admission.engine.features.moves.plans import MovePlan
from admission.engine.features.moves.wording import moving_message, purpose_of
from admission.engine.ledger.holds import HoldKind, hold_key
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import ClusterQueue, PreemptionPolicy, RestartTerms, TopologyRequest
from admission.engine.queue.queues import PendingQueues
from admission.engine.scheduler_state import SchedulerState
from api.meta import ObjectMeta
from api.names import MOVABLE
from api.workloads import Admission, Workload, WorkloadStatus
from tests.bench.defrag import LONGEST_STEP_MS, NOW, RACK, cluster, gang

GANGS: Final = 4
URGENT: Final = 10


@dataclass
class Interrupted:
    """The cluster after the death of the process before. `plans` were interrupted, `steps` are CPU seconds on the loop."""

    nodes: int = 2000
    candidates: int = 700
    others: int = 15_000
    plans: list[MovePlan] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ledger, self.queues = cluster(self.nodes, self.candidates), PendingQueues()
        self.state, self.objects = SchedulerState(self.ledger, self.queues), dict[str, Workload]()
        spec = self.ledger.quota.spec("q")
        assert isinstance(spec, ClusterQueue)
        self.state.apply(replace(spec, preemption=PreemptionPolicy(within_cluster_queue="LowerPriority")))
        _mixed(self.ledger)
        for number in range(GANGS):
            self._interrupt(f"ns/gang-{number}")
        for made in self.plans:
            assert self.ledger.holds.drop(hold_key(HoldKind.PLACE, made.workload))  # a hold ends with its process
        self.objects |= {f"ns/other-{n}": _moved("q", f"other-{n}", "", going=False) for n in range(self.others)}
        view = cast("Views", SimpleNamespace(workloads=SimpleNamespace(objects=self.objects)))
        places = HeldPlaces(view, self.ledger, self.queues)
        self.evicts = list[str]()
        self.executor: Any = SimpleNamespace(budgets=MoveBudgets(self.ledger), places=places, evict=self._evict)
        context: Any = SimpleNamespace(ledger=self.ledger, queues=self.queues)
        self.successor = TakeOver(view, cast("SchedulerContext", context), cast("MoveExecutor", self.executor))

    def _interrupt(self, key: str) -> None:
        """The moves of a plan for the gang are written, and none of its evictions is."""
        waits = replace(gang(16, 8, TopologyRequest(required=RACK)), key=key, uid=key, priority=URGENT)
        self.state.apply(waits)
        found = plan(self.ledger, waits, NOW, PlanOptions(evict=True))
        assert isinstance(found, MovePlan), found
        assert found.evictions
        assert commit(self.ledger, waits, found, NOW, {}) is None
        self.plans.append(found)
        for move in found.moves:
            mover = self.ledger.workload(move.workload)
            assert mover is not None
            self.ledger.apply(replace(mover, admission=move.after, restart=replace(mover.restart, moving=True)))
            self.objects[move.workload] = _moved("q", move.workload[3:], key, going=True)

    async def resume(self) -> list[MovePlan]:
        """Takes over; returns the plans whose evictions are still to be begun."""
        watch = asyncio.create_task(self._watch())
        try:
            async with asyncio.TaskGroup() as writes:
                return await self.successor.resume(NOW, writes)
        finally:
            await asyncio.sleep(0)
            watch.cancel()

    def _evict(self, move_plan: MovePlan, _: asyncio.TaskGroup) -> None:
        assert move_plan.workload in self.executor.places
        self.evicts.append(move_plan.workload)

    async def _watch(self) -> None:
        """Notes after each step of the loop what it took."""
        while True:
            began = process_time()
            await asyncio.sleep(0)
            self.steps.append(process_time() - began)


def _mixed(ledger: Ledger) -> None:
    """A third of the workloads may be moved, and is as important as any; each other one is less important than the gangs."""
    for number, key in enumerate(sorted(ledger.admissions)):
        found = ledger.workload(key)
        assert found is not None
        movable = number % 3 == 0
        terms = replace(found.restart, movable=movable) if movable else RestartTerms()
        changed = replace(found, priority=2 * URGENT if movable else number % 5, restart=terms)
        ledger.apply(replace(changed, admission=ledger.admission(key)))


def _moved(queue: str, name: str, key: str, *, going: bool) -> Workload:
    """A Workload on its way to another place for the gang of that key, or one that has arrived."""
    status = WorkloadStatus(admission=Admission(cluster_queue=queue))
    status = moving.begun(status, moving_message(purpose_of(key)), NOW - 60.0)
    status = status if going else moving.ended(status, NOW - 60.0)
    return Workload(metadata=ObjectMeta(name=name, namespace="ns", annotations={MOVABLE: "true"}), status=status)


def run(nodes: int = 2000, candidates: int = 700) -> None:
    """Print the line."""
    found = Interrupted(nodes, candidates)
    gc.collect()
    gc.disable()
    start = process_time()
    resumed = asyncio.run(found.resume())
    took, longest = 1000 * (process_time() - start), 1000 * max(found.steps)
    gc.enable()
    slow = "  OVER THE LIMIT" if longest > LONGEST_STEP_MS else ""
    print(f"a new leader           {took:7.1f} ms  longest step {longest:5.1f} ms  {len(resumed)} plans resumed{slow}")


if __name__ == "__main__":
    run()
