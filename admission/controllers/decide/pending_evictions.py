"""Writes the evictions that cycles decide, for preemptors or because of failed nodes, each at most once.

The scheduler calls it; the evictor handles status, events and counters. From the decision on, the ledger counts the workload
as evicted, so that no further victim is chosen while the write is under way. The write carries the resourceVersion that the
decision saw: if another client changed the workload meanwhile, it is not evicted and the next cycle decides again. After a
crash the next leader reads the statuses: workloads already evicted count as such and are not evicted twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from admission.controllers.decide.scheduler_context import SchedulerContext
from admission.controllers.state.condition_table import Writer
from admission.controllers.state.evictions import Eviction
from admission.controllers.watch.cluster_view import Views
from admission.controllers.write.evictor import Evictor
from admission.controllers.write.status import read_again
from admission.engine.decision import Evict, Preempt, PreemptionReason
from admission.engine.model import Workload as EngineWorkload
from admission.engine.preemption.wording import eviction_message, preempted_event, priorities
from admission.metrics import lives
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
    """An eviction to write."""

    key: str
    uid: str
    eviction: Eviction
    preemptors: tuple[str, ...] = ()
    """The keys of the workloads that wait for it."""
    preemptor_message: str = ""
    """The text of the event on each of them, if it is a preemption."""
    failed: str = ""
    """Why a replacement of the workload's failed nodes was impossible."""


class PendingEvictions:
    """Starts evictions and carries them out.

    `admitting` holds the tasks of admissions being written, by workload. `again` is called with the key of a workload whose
    eviction could not be written, so that its replacement is tried again.
    """

    def __init__(
        self,
        kube: Kube,
        views: Views,
        context: SchedulerContext,
        evictor: Evictor,
        recorder: EventRecorder,
        admitting: Mapping[str, asyncio.Task[Any]],
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
        """Evicts the victims that are not being evicted yet."""
        preemptor = self._queues.workload(decision.workload)
        for victim in decision.victims:
            admitted = self._ledger.workload(victim.workload)
            if preemptor is None or admitted is None or admitted.admission is None or admitted.evicted:
                continue
            queue = admitted.admission.cluster_queue
            eviction = self._eviction(preemptor, admitted, queue, victim.claim)
            text = preempted_event(preemptor, admitted, queue)
            self._begin(admitted, PendingEviction(admitted.key, admitted.uid, eviction, (preemptor.key,), text), tasks)

    def _eviction(
        self, preemptor: EngineWorkload, admitted: EngineWorkload, queue: str, claim: PreemptionReason
    ) -> Eviction:
        if claim is PreemptionReason.OUTLASTED:
            why = "It overtook a waiting workload because jobs like it were short"
            return Eviction(claim.value, f"{why}, and ran too long for {preemptor.key} to start in time")
        message = eviction_message(self._ledger.quota, preemptor, queue, claim)
        event_message = message + priorities(preemptor, admitted)
        return Eviction(EvictedReason.PREEMPTED, message, preemption=claim.value, event_message=event_message)

    def evict(self, decision: Evict, tasks: asyncio.TaskGroup) -> None:
        """Evicts a workload that lost its nodes or cannot start together with its gang group."""
        admitted = self._ledger.workload(decision.workload)
        if admitted is not None and not admitted.evicted:
            eviction = Eviction(decision.reason, decision.message)
            together = admitted.gang.together if admitted.gang else ()
            self._begin(
                admitted, PendingEviction(admitted.key, admitted.uid, eviction, together, failed=decision.failed), tasks
            )

    def _begin(self, admitted: EngineWorkload, removal: PendingEviction, tasks: asyncio.TaskGroup) -> None:
        self._mark(admitted)
        task = tasks.create_task(self._perform(removal), name=f"evict {removal.key}")
        task.add_done_callback(lambda _: self._feed.let_go(removal.key))

    def _mark(self, admitted: EngineWorkload) -> None:
        """Marks the workload as evicted in the ledger, whatever the watch shows."""
        self._feed.hold(admitted.key)
        self._ledger.apply(replace(admitted, evicted=True))

    async def _perform(self, removal: PendingEviction) -> None:
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
            # The preemptor is considered again once the feed has restored the victim.
            self._feed.let_go(removal.key)
            self._retry_later(removal)
            self._look_again(removal)

    def _retry_later(self, removal: PendingEviction) -> None:
        """Reports a workload that was neither placed again nor evicted, and tries both again."""
        workload = self._views.workloads.objects.get(removal.key)
        if removal.failed and workload is not None and _may_go(workload, removal):
            self._recorder.record(ref_to(WORKLOADS, workload), "Warning", "SecondPassFailed", removal.failed)
            self._again(removal.key)

    async def _admitted_first(self, key: str) -> None:
        """Waits for the workload's own admission, whose outcome is unknown until its write is answered."""
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
                await self._evictor.evict(workload, removal.eviction, Writer.SCHEDULER)
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
            self._record_events(removal)
            return True
        return workload is not None and is_true(workload.status.conditions, EVICTED)

    def _record_events(self, removal: PendingEviction) -> None:
        if not removal.preemptor_message:
            return
        for preemptor in filter(None, map(self._views.workloads.objects.get, removal.preemptors)):
            self._recorder.record(
                ref_to(WORKLOADS, preemptor), "Normal", "PreemptedWorkload", removal.preemptor_message
            )
            local = self._views.local_queue_of(preemptor)
            queue = local.spec.cluster_queue if local else ""
            lives.PREEMPTED.labels(queue, removal.eviction.preemption or removal.eviction.reason).inc()

    def _look_again(self, removal: PendingEviction) -> None:
        pending = filter(None, map(self._queues.workload, removal.preemptors))
        self._queues.lines.requeue(sorted({workload.cluster_queue for workload in pending}))
        self._cycle_due.set()


def _may_go(workload: Workload, removal: PendingEviction) -> bool:
    """Reports whether the workload is still as decided on: it has quota and is not being evicted."""
    states = workload.status.conditions
    return (
        workload.metadata.uid == removal.uid
        and is_true(states, QUOTA_RESERVED)
        and not is_true(states, EVICTED)
        and not is_true(states, FINISHED)
    )
