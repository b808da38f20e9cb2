"""Workloads that the cycle has decided to evict, for others or because their nodes failed: written, each at most once.

From the decision on, the ledger counts the workload as leaving, so that no other is evicted in its stead while the write is
under way. The write names the resourceVersion that the decision saw: if another client wrote meanwhile, no workload is evicted,
and the next cycle decides again. After a crash the next leader reads the statuses: a workload that is evicted already counts
as leaving for every later decision, and is not evicted twice.

Called by the scheduler. The status, events and counters are the evictor's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from admission import metrics
from admission.controllers.cluster_view import Views
from admission.controllers.evictions import Eviction
from admission.controllers.evictor import Evictor
from admission.controllers.scheduler_context import SchedulerContext
from admission.controllers.status import read_again
from admission.engine.decision import Evict, Preempt
from admission.engine.model import Workload as EngineWorkload
from admission.engine.preemption.wording import eviction_message, preempted_event, priorities
from api.errors import Conflict, NotFound, NotLeader, ServerError, StowageError, Unreachable
from api.kube.client import Kube
from api.kube.events import EventRecorder, ref_to
from api.kube.resources import WORKLOADS
from api.meta import is_true
from api.names import EVICTED, FINISHED, QUOTA_RESERVED, EvictedReason
from api.workloads import Workload

log = logging.getLogger(__name__)

_PAUSE = 1.0


@dataclass(frozen=True, slots=True)
class PendingEviction:
    """One eviction to be written. `for_whom`: keys of the workloads that wait for it; `preemptor_message`: the text of
    the event on each of them, if the eviction makes room for them. `failed`: what was tried for the workload first, and
    why it failed.
    """

    key: str
    uid: str
    eviction: Eviction
    for_whom: tuple[str, ...] = ()
    preemptor_message: str = ""
    failed: str = ""


class PendingEvictions:
    """Begins and carries out evictions. `admission_writer`: admissions that are being written, by workload.

    `again`: called with the key of a workload that lacks its place still, because its eviction could not be written.
    """

    def __init__(
        self,
        kube: Kube,
        views: Views,
        context: SchedulerContext,
        evictor: Evictor,
        recorder: EventRecorder,
        admitting: Mapping[str, asyncio.Task[None]],
        again: Callable[[str], None],
    ) -> None:
        self._kube, self._views, self._evictor, self._recorder = kube, views, evictor, recorder
        self._feed, self._ledger, self._queues, self._cycle_due = (
            context.feed,
            context.ledger,
            context.queues,
            context.cycle_due,
        )
        self._admitting, self._again = admitting, again

    def preempt(self, decision: Preempt, tasks: asyncio.TaskGroup) -> None:
        """Evict the victims that are not on their way out yet."""
        preemptor = self._queues.workload(decision.workload)
        for victim in decision.victims:
            admitted = self._ledger.workload(victim.workload)
            if preemptor is None or admitted is None or admitted.admission is None or admitted.evicted:
                continue
            queue = admitted.admission.cluster_queue
            message = eviction_message(self._ledger.quota, preemptor, queue, victim.claim)
            eviction = Eviction(
                EvictedReason.PREEMPTED,
                message,
                preemption=victim.claim.value,
                event_message=message + priorities(preemptor, admitted),
            )
            text = preempted_event(preemptor, admitted, queue)
            self._begin(admitted, PendingEviction(admitted.key, admitted.uid, eviction, (preemptor.key,), text), tasks)

    def evict(self, decision: Evict, tasks: asyncio.TaskGroup) -> None:
        """Evict a workload for its own sake, or for those that may only start together with it."""
        admitted = self._ledger.workload(decision.workload)
        if admitted is not None and not admitted.evicted:
            eviction = Eviction(decision.reason, decision.message)
            together = admitted.gang.together if admitted.gang else ()
            self._begin(
                admitted, PendingEviction(admitted.key, admitted.uid, eviction, together, failed=decision.failed), tasks
            )

    def _begin(self, admitted: EngineWorkload, removal: PendingEviction, tasks: asyncio.TaskGroup) -> None:
        self._mark(admitted)
        task = tasks.create_task(self._carry_out(removal), name=f"evict {removal.key}")
        task.add_done_callback(lambda _: self._feed.let_go(removal.key))

    def _mark(self, admitted: EngineWorkload) -> None:
        """On its way out, whatever the watch still shows."""
        self._feed.hold(admitted.key)
        self._ledger.apply(replace(admitted, evicted=True))

    async def _carry_out(self, removal: PendingEviction) -> None:
        await self._admitted_first(removal.key)
        try:
            done = await self._write(removal)
        except NotLeader:
            return
        except StowageError as error:
            log.warning("eviction not written: %s", error, extra={"workload": removal.key})
            await asyncio.sleep(_PAUSE)
            done = False
        if not done:
            # Its preemptor is considered again once the feed has taken that.
            self._feed.let_go(removal.key)
            self._stays(removal)
            self._look_again(removal)

    def _stays(self, removal: PendingEviction) -> None:
        """It has neither another place nor been evicted: it says so, and both are tried again."""
        workload = self._views.workloads.objects.get(removal.key)
        if removal.failed and workload is not None and _may_go(workload, removal):
            self._recorder.record(ref_to(WORKLOADS, workload), "Warning", "SecondPassFailed", removal.failed)
            self._again(removal.key)

    async def _admitted_first(self, key: str) -> None:
        """Its own admission may still be on its way to the API server: nothing is known before that has an answer."""
        writing = self._admitting.get(key)
        if writing is None:
            return
        await asyncio.wait({writing})
        if (admitted := self._ledger.workload(key)) is not None and admitted.admission is not None:
            self._mark(admitted)

    async def _write(self, removal: PendingEviction) -> bool:
        workload = self._views.workloads.objects.get(removal.key)
        while workload is not None and _may_go(workload, removal):
            try:
                await self._evictor.evict(workload, removal.eviction)
            except NotFound:
                return False
            except Conflict as why:
                log.info("eviction to be decided again: %s", why, extra={"workload": removal.key})
                await read_again(self._kube, self._views, workload)
                return False
            except (Unreachable, ServerError) as why:
                log.info("eviction to be written again: %s", why, extra={"workload": removal.key})
                workload = await read_again(self._kube, self._views, workload)
                continue
            self._tell(removal)
            return True
        return workload is not None and is_true(workload.status.conditions, EVICTED)

    def _tell(self, removal: PendingEviction) -> None:
        if not removal.preemptor_message:
            return
        for preemptor in filter(None, map(self._views.workloads.objects.get, removal.for_whom)):
            self._recorder.record(
                ref_to(WORKLOADS, preemptor), "Normal", "PreemptedWorkload", removal.preemptor_message
            )
            local = self._views.local_queue_of(preemptor)
            queue = local.spec.cluster_queue if local else ""
            metrics.PREEMPTED.labels(queue, removal.eviction.preemption).inc()

    def _look_again(self, removal: PendingEviction) -> None:
        pending = filter(None, map(self._queues.workload, removal.for_whom))
        self._queues.requeue(sorted({workload.cluster_queue for workload in pending}))
        self._cycle_due.set()


def _may_go(workload: Workload, removal: PendingEviction) -> bool:
    """Whether it still is what was decided on: it holds quota and is not on its way out."""
    states = workload.status.conditions
    return (
        workload.metadata.uid == removal.uid
        and is_true(states, QUOTA_RESERVED)
        and not is_true(states, EVICTED)
        and not is_true(states, FINISHED)
    )
