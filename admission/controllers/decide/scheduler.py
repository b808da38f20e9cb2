"""The scheduling loop: runs admission cycles on request of the feed, and starts the writes of their decisions.

It runs on the leader only. A cycle charges its admissions to the ledger at once; admission_writer.py writes each of them while
the next cycle already runs. If a write fails, the feed restores the Workload as the watch shows it. If the outcome is unknown,
the charge stays until the Workload has been read, so no capacity is given twice. pending_evictions.py writes evictions in the
same way. A cycle never sees a change that is handled for some workloads only (`Feed.settled`). Running workloads that lost a
node, and jobs that shrank, come before each cycle (node_replacement.py, shrunk_jobs.py).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine
from dataclasses import replace
from typing import Any

from admission.controllers.decide.pending_evictions import PendingEvictions
from admission.controllers.decide.scheduler_context import SchedulerContext
from admission.controllers.decide.shrunk_jobs import ShrunkJobs
from admission.controllers.nodes.node_replacement import NodeReplacements
from admission.controllers.report.decision_log import DecisionLog
from admission.controllers.report.wait_reasons import WaitReason, WaitReporter
from admission.controllers.watch.cluster_view import Views
from admission.controllers.write.admission_writer import AdmissionWriter
from admission.controllers.write.evictor import Evictor
from admission.controllers.write.outcome import Outcome
from admission.engine import model
from admission.engine.cycle.cycle import CycleReport
from admission.engine.cycle.second_pass import Lost
from admission.engine.decide import decide
from admission.engine.decision import Admit, Decision, Evict, Preempt, PreemptionReason, Reject, Wait
from admission.engine.reasons import Reason
from admission.metrics import controller as metrics
from api.errors import NotLeader, StowageError
from api.kube.client import Kube
from api.kube.events import EventRecorder, ref_to
from api.kube.informers.store import Change, ChangeType
from api.kube.resources import WORKLOADS
from api.workloads import Workload

log = logging.getLogger(__name__)

_PAUSE = 1.0
SET_ASIDE = 60.0
"""Seconds until a workload is tried again whose decision raised an exception."""

Spent = Callable[[Collection[str], float], None]
"""Called after a cycle with the keys of the Workloads that it decided on, and its duration in seconds."""


class Scheduler:
    """Runs cycles and carries out their decisions."""

    def __init__(
        self,
        kube: Kube,
        views: Views,
        context: SchedulerContext,
        waits: WaitReporter,
        recorder: EventRecorder,
        now: Callable[[], float] = time.time,
        *,
        spent: Spent = lambda keys, seconds: None,
    ) -> None:
        self._views, self._context, self._waits, self._recorder, self._now = views, context, waits, recorder, now
        self._spent = spent
        self._after: list[Callable[[], None]] = []
        self._before: list[Callable[[asyncio.TaskGroup], Awaitable[None]]] = []
        self._on_wait: list[Callable[[Wait], None]] = []
        self._instead: Callable[[Preempt], bool] = lambda decision: False
        self._log = DecisionLog(views.workloads.objects)
        views.workloads.add_handler(self._workload_changed)
        self._slots = asyncio.Semaphore(context.settings.writes)
        self._admitting: dict[str, asyncio.Task[Any]] = {}
        request_cycle = context.cycle_due.set
        self._writer = AdmissionWriter(kube, views, recorder, now)
        self._repairs = NodeReplacements(views, context.ledger, request_cycle)
        self._shrunk = ShrunkJobs(views, context.ledger, request_cycle)
        evictor = Evictor(kube, views, recorder, now)
        self._removals = PendingEvictions(kube, views, context, evictor, recorder, self._admitting, self._repairs.again)

    @property
    def admitting(self) -> Collection[str]:
        """The keys of workloads whose admissions are being written."""
        return self._admitting.keys()

    def failed(self) -> dict[str, list[str]]:
        """Returns the failed nodes of workloads that are to be placed again before the next cycle."""
        return self._repairs.due(self._admitting)

    def before_cycles(self, call: Callable[[asyncio.TaskGroup], Awaitable[None]]) -> None:
        """Registers a callback to await once, when this replica has begun to lead and before its first cycle.

        Its argument is the group for the tasks that write.
        """
        self._before.append(call)

    def on_wait(self, call: Callable[[Wait], None]) -> None:
        """Registers a callback for each workload that a cycle lets wait."""
        self._on_wait.append(call)

    def instead_of_preemption(self, call: Callable[[Preempt], bool]) -> None:
        """Registers a function that is called before workloads are evicted for another one: True defers the evictions.

        The deferred ones are decided again when the victims are reported to stay (QueueLines.stays).
        """
        self._instead = call

    def preempt(self, decision: Preempt, writes: asyncio.TaskGroup) -> None:
        """Evicts the victims of a plan of moves, whose preemptor's place is held."""
        self._removals.preempt(decision, writes)

    def after_cycle(self, call: Callable[[], None]) -> None:
        """Registers a callback to run after each cycle."""
        self._after.append(call)

    def displace(self, key: str, lost: Lost, avoid: frozenset[str]) -> None:
        """See NodeReplacements.displace."""
        self._repairs.displace(key, lost, avoid)

    async def run(self) -> None:
        """Runs until cancelled."""
        context = self._context
        async with asyncio.TaskGroup() as writes:
            context.cycle_due.set()
            await context.feed.settled()
            for first in self._before:
                await first(writes)
            while True:
                await self._wait()
                await context.feed.settled()
                context.cycle_due.clear()
                for decision in self._repairs.decisions(self._admitting):
                    self._repair(decision, writes)
                for shrunk in self._shrunk.decisions(self._admitting):
                    self._begin(shrunk, self._follow(shrunk), writes)
                report = self._cycle()
                for decision in report.decisions:
                    self._act(decision, writes)
                for workload, error in report.undecided:
                    self._set_aside(workload, error)
                for notice in report.notices:
                    if notice.workload.blocked is None:
                        self._waits.waits(notice.workload.key, WaitReason(notice.reason, notice.message, {}))
                if report.more:
                    context.cycle_due.set()
                for call in self._after:
                    call()
                # A cycle never yields to the loop, so let other tasks run before the next one.
                await asyncio.sleep(0)

    def _set_aside(self, workload: model.Workload, error: Exception) -> None:
        """Sets aside a workload whose decision raised an exception, so that it does not block others, and retries it later."""
        log.error("cannot decide on a workload", exc_info=error, extra={"workload": workload.key})
        metrics.UNDECIDED.inc()
        self._context.queues.put(replace(workload, not_before=self._now() + SET_ASIDE))
        why = f"{type(error).__name__}: {error}"
        text = f"Stowage failed to decide on this workload, and tries again in {SET_ASIDE:.0f} s: {why}"
        self._waits.waits(workload.key, WaitReason(Reason.MISCONFIGURED, text, {}))

    def _workload_changed(self, change: Change[Workload]) -> None:
        if change.type is ChangeType.DELETED:
            self._log.forget(change.key)

    async def _wait(self) -> None:
        due = self._context.queues.next_due()
        pause = None if due is None else max(0.0, due - self._now())
        try:
            async with asyncio.timeout(pause):
                await self._context.cycle_due.wait()
        except TimeoutError:
            log.debug("a backoff is over")

    def _cycle(self) -> CycleReport:
        started, spent, context = time.perf_counter(), time.thread_time(), self._context
        startable = context.readiness.startable(bool(self._admitting)) if context.readiness else None
        budget = context.settings.cycle_budget
        report = decide(context.ledger, context.queues, self._now(), budget, context.sharing, startable=startable)
        result = "success" if any(isinstance(d, Admit) for d in report.decisions) else "inadmissible"
        metrics.ATTEMPTS.labels(result).inc()
        seconds = time.perf_counter() - started
        metrics.ATTEMPT_SECONDS.labels(result).observe(seconds)
        if report.decisions:
            metrics.DECISION_SECONDS.observe(seconds / len(report.decisions))
        self._spent([decision.workload for decision in report.decisions], seconds)
        for decision in report.decisions:
            self._log.decided(decision, seconds * 1000)
        metrics.CYCLE_CPU.inc(time.thread_time() - spent)
        for decision in report.decisions:
            metrics.DECISIONS.labels(type(decision).__name__).inc()
            if isinstance(decision, Wait) and decision.reason is Reason.REPEATED_PREEMPTION:
                waits = context.queues.workload(decision.workload)
                metrics.REPEATED_PREEMPTIONS.labels("" if waits is None else waits.cluster_queue).inc()
        return report

    def _act(self, decision: Decision, writes: asyncio.TaskGroup) -> None:
        match decision:
            case Admit():
                if self._context.feed.may_start(decision.workload):
                    self._waits.forget(decision.workload)
                    self._begin(decision, self._admit(decision), writes)
            case Wait():
                message = "; ".join(filter(None, (decision.message, decision.too_large)))
                wait = WaitReason(decision.reason, message, decision.requested, decision.never, decision.gated)
                self._waits.waits(decision.workload, wait)
                for call in self._on_wait:
                    call(decision)
            case Reject():
                self._waits.waits(decision.workload, WaitReason(decision.reason, decision.message, {}))
            case Preempt():
                wait = WaitReason(Reason.WAITING_FOR_PREEMPTED, decision.message, decision.requested)
                self._waits.waits(decision.workload, wait)
                if _leave_in_any_case(decision) or not self._instead(decision):
                    self._removals.preempt(decision, writes)
            case Evict():
                self._removals.evict(decision, writes)

    def _repair(self, decision: Decision, writes: asyncio.TaskGroup) -> None:
        match decision:
            case Admit():
                self._begin(decision, self._move(decision), writes)
            case Wait():
                self._second_pass_failed(decision)
            case _:
                self._act(decision, writes)

    # ---- writes

    def _begin(self, decision: Admit, write: Coroutine[Any, Any, None], writes: asyncio.TaskGroup) -> None:
        key = decision.workload
        self._context.feed.hold(key)
        task = self._admitting[key] = writes.create_task(write, name=f"admit {key}")

        task.add_done_callback(lambda _: self._ended(key))

    def _ended(self, key: str) -> None:
        # However the write ends, also by the loss of the Lease or before it began, the next term starts from what the watch
        # shows.
        self._admitting.pop(key, None)
        self._context.feed.let_go(key)
        self._repairs.written(key)
        self._shrunk.written(key)
        if self._context.readiness is not None:
            self._context.readiness.settled(bool(self._admitting))

    def writing(self, key: str, task: asyncio.Task[Any]) -> None:
        """Counts the task as a write of the workload, as if the scheduler had begun it: nothing else is written meanwhile."""
        self._context.feed.hold(key)
        self._admitting[key] = task
        task.add_done_callback(lambda _: self._ended(key))

    async def _admit(self, decision: Admit) -> None:
        await self._counted(decision.workload, self._writer.admit(decision))

    async def _move(self, decision: Admit) -> None:
        outcome = await self._counted(decision.workload, self._writer.move(decision))
        if not outcome.is_final:
            self._context.feed.let_go(decision.workload)
            self._repairs.again(decision.workload)

    async def _follow(self, decision: Admit) -> None:
        outcome = await self._counted(decision.workload, self._writer.follow(decision))
        if not outcome.is_final:
            self._context.feed.let_go(decision.workload)
            self._shrunk.again(decision.workload)

    async def _counted(self, key: str, write: Awaitable[Outcome]) -> Outcome:
        try:
            async with self._slots:
                outcome = await write
        except NotLeader:
            outcome = Outcome.FENCED
        except StowageError as error:
            outcome = Outcome.FAILED
            log.warning("admission not written: %s", error, extra={"workload": key})
            await asyncio.sleep(_PAUSE)
        metrics.WRITES.labels(outcome).inc()
        return outcome

    def _second_pass_failed(self, decision: Wait) -> None:
        workload = self._views.workloads.objects.get(decision.workload)
        if workload is not None:
            self._recorder.record(ref_to(WORKLOADS, workload), "Warning", "SecondPassFailed", decision.message)


def _leave_in_any_case(decision: Preempt) -> bool:
    """Reports whether the victims must leave now, because the workload was promised to start now."""
    return any(victim.claim is PreemptionReason.OUTLASTED for victim in decision.victims)
