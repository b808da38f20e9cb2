"""Moves that a Topology asks for: by its policy, in the background, or once (`stowage defrag --apply`).

The annotations are those of api/annotations/defragmentation.py. One that cannot be read is named in an event of the Topology
and has no effect. A request is answered once, in the annotation `stowage.dev/defragmented`: `ID Refused: why`, or `ID Moving:
which`, once the moves are written.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from admission.controllers.decide.scheduler_context import SchedulerContext
from admission.controllers.moves.executor import MoveExecutor, lost
from admission.controllers.moves.move_log import MoveLog
from admission.controllers.moves.planning import computed
from admission.controllers.watch.cluster_view import Views
from admission.engine.features.moves.free_hosts import free_hosts
from admission.engine.features.moves.levels import level_named
from admission.engine.features.moves.plan import PlanOptions
from admission.engine.features.moves.plans import MovePlan, NoPlan
from admission.engine.features.moves.vacate import vacate
from admission.engine.features.moves.wording import NAMED
from admission.engine.listed import listed
from api.annotations.defragmentation import DefragmentPolicy, MoveRequest, policy_of, request_of
from api.errors import InvalidObject, NotFound, StowageError
from api.kube.client import Kube, PatchKind
from api.kube.events import EventRecorder, ref_to
from api.kube.resources import TOPOLOGIES
from api.names import DEFRAGMENTED
from api.topology import Topology

log = logging.getLogger(__name__)

_PERIOD: Final = 60.0
"""Seconds between two looks at a policy; after a look without a plan, so many times `_PATIENCE`."""
_PATIENCE: Final = 5.0
_LONGEST_ANSWER: Final = 64 * 1024

PlanFor = Callable[[str], Awaitable[tuple[MovePlan | NoPlan | None, float]]]
"""Plans for the waiting workload of a key."""


class TopologyMoves:
    """Looks at the Topologies in turn."""

    def __init__(
        self,
        kube: Kube,
        views: Views,
        context: SchedulerContext,
        executor: MoveExecutor,
        recorder: EventRecorder,
        now: Callable[[], float],
        plan_for: PlanFor,
    ) -> None:
        self._kube, self._views, self._ledger, self._executor = kube, views, context.ledger, executor
        self._recorder, self._now, self._plan_for = recorder, now, plan_for
        self._automatic = context.settings.moves
        self._next: dict[str, float] = {}
        self._told: dict[str, str] = {}
        self._made = MoveLog()

    async def look(self, writes: asyncio.TaskGroup) -> float:
        """Serves requests, and policies that are due; returns the seconds of computation."""
        spent = 0.0
        for name in [name for name in self._next if name not in self._views.topologies.objects]:
            self._next.pop(name)
            self._told.pop(name, None)
        for topology in list(self._views.topologies.objects.values()):
            annotations = topology.metadata.annotations
            try:
                request = request_of(annotations)
                policy = policy_of(annotations) if self._automatic else None
            except InvalidObject as bad:
                self._tell_fault(topology, str(bad))
                continue
            if request is not None and not annotations.get(DEFRAGMENTED, "").startswith(f"{request.id} "):
                spent += await self._serve(topology, request, writes)
            if policy is not None and self._next.get(topology.key, 0.0) <= self._now() and policy.due(self._now()):
                spent += await self._follow(topology, policy, writes)
        return spent

    def _tell_fault(self, topology: Topology, text: str) -> None:
        if self._told.get(topology.key) != text:
            self._told[topology.key] = text
            self._next.setdefault(topology.key, 0.0)
            self._recorder.record(ref_to(TOPOLOGIES, topology), "Warning", "InvalidAnnotation", text)

    # ---- a policy

    async def _follow(self, topology: Topology, policy: DefragmentPolicy, writes: asyncio.TaskGroup) -> float:
        left, spent = self._made.left({topology.key: policy.per_day}, self._now()).get(topology.key), 0.0
        self._next[topology.key] = self._now() + _PERIOD
        for flavor in self._flavors(topology):
            level = level_named(self._ledger, flavor, policy.level)
            if level is None:
                self._tell_fault(topology, f"stowage.dev/defragment: flavor {flavor} has no level {policy.level!r}")
                continue
            result, took = await self._vacated(flavor, level, policy)
            spent += took
            if isinstance(result, NoPlan):
                self._next[topology.key] = self._now() + _PERIOD * _PATIENCE
            elif result is not None and (left is None or len(result.moves) <= left):
                self._begin(topology, result, writes)
        return spent

    async def _vacated(
        self, flavor: str, level: str, policy: DefragmentPolicy | None
    ) -> tuple[MovePlan | NoPlan | None, float]:
        """Returns the plan for a free domain of the level; None while the policy asks for none."""

        def compute(pause: Callable[[], None]) -> MovePlan | NoPlan | None:
            if policy is not None:
                counts = free_hosts(self._ledger, flavor, level, pause)
                if counts is None or counts.largest >= policy.hosts or counts.idle <= policy.idle:
                    return None
            options = PlanOptions(self._executor.budgets.left(self._now()), bound=True, pause=pause)
            least = 1 if policy is None else policy.hosts
            return vacate(self._ledger, flavor, level, self._now(), options, least=least)

        return await computed(compute, {"flavor": flavor, "level": level})

    def _begin(self, topology: Topology, plan: MovePlan, writes: asyncio.TaskGroup) -> str | asyncio.Task[list[str]]:
        """Begins the moves of a plan for a free domain, or returns why it no longer holds."""
        begun = self._executor.begin(plan, f"{'/'.join(plan.domain)} becomes free", writes)
        if not isinstance(begun, str):
            for _ in plan.moves:
                self._made.add(topology.key, self._now())
            keys = [move.workload for move in plan.moves]
            text = f"{listed(keys, NAMED)} leave {'/'.join(plan.domain)} for other places and lose {lost(plan)}"
            self._recorder.record(ref_to(TOPOLOGIES, topology), "Normal", "Defragmenting", text)
        return begun

    def _flavors(self, topology: Topology) -> list[str]:
        flavors = self._views.flavors.objects.values()
        return sorted(one.key for one in flavors if one.spec.topology_name == topology.key)

    # ---- a request

    async def _serve(self, topology: Topology, request: MoveRequest, writes: asyncio.TaskGroup) -> float:
        """Begins what is requested, and answers."""
        if request.workload:
            result, spent = await self._plan_for(request.workload)
            missing = f"{request.workload} does not wait for a place, or changed while it was planned for"
        else:
            result, spent = await self._cheapest(topology, request.level)
            missing = f"no flavor of the Topology has the level {request.level}"
        if isinstance(result, MovePlan):
            if result.workload:
                begun = self._executor.begin(result, f"{result.workload} gets its domain", writes)
            else:
                begun = self._begin(topology, result, writes)
            answer = await _answer(result, begun)
        else:
            answer = f"Refused: {missing if result is None else f'{result.reason}: {result.message}'}"
        await self._write(topology, f"{request.id} {answer}"[:_LONGEST_ANSWER])
        return spent

    async def _cheapest(self, topology: Topology, level: str) -> tuple[MovePlan | NoPlan | None, float]:
        plans, spent = [], 0.0
        for flavor in self._flavors(topology):
            if (named := level_named(self._ledger, flavor, level)) is not None:
                result, took = await self._vacated(flavor, named, None)
                spent += took
                plans.append(result)
        made = [one for one in plans if isinstance(one, MovePlan)]
        best = min(made, key=lambda plan: plan.certificate.cost) if made else next(iter(plans), None)
        return best, spent

    async def _write(self, topology: Topology, text: str) -> None:
        body = {"metadata": {"uid": topology.metadata.uid, "annotations": {DEFRAGMENTED: text}}}
        try:
            await self._kube.patch(TOPOLOGIES, topology.metadata.name, body, kind=PatchKind.MERGE)
        except NotFound:
            return
        except StowageError as error:
            log.warning("a request of moves was not answered: %s", error, extra={"topology": topology.key})


async def _answer(plan: MovePlan, begun: str | asyncio.Task[list[str]]) -> str:
    """Waits until the moves are written, and returns the answer to the request."""
    if isinstance(begun, str):
        return f"Refused: {begun}"
    stays = await begun
    movers = ",".join(move.workload for move in plan.moves if move.workload not in stays)
    return f"Moving: {movers}" + (f"; stay: {','.join(stays)}" if stays else "")
