"""The loop: woken by the feed, it runs admission cycles and writes what they decide. Only the leader runs it.

A cycle books its admissions in the ledger at once; here each is written to its Workload's status, many at a time, while
the next cycle already runs. A write that fails takes the booking back (the feed then sees the Workload as it is); one
whose outcome is unknown keeps it until the Workload was read, so that no capacity is ever given twice.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from admission import metrics
from admission.controllers import conditions
from admission.controllers.activity import checks_of
from admission.controllers.feed import Feed
from admission.controllers.status import patch_status
from admission.controllers.views import Views
from admission.controllers.waits import WaitReason, WaitReporter
from admission.engine import intake
from admission.engine.cycle import CycleReport, run_cycle
from admission.engine.decision import Admit, Decision, Preempt, Reject, Wait
from admission.engine.ledger import Ledger
from admission.engine.queue import PendingQueues
from admission.settings import ControllerSection
from api.errors import ApiError, Conflict, NotFound, NotLeader, ServerError, StowageError, Unreachable
from api.kube.client import Kube
from api.kube.events import EventRecorder, ref_to
from api.kube.resources import WORKLOADS
from api.meta import is_true, parse_time
from api.names import ADMITTED, FINISHED, QUOTA_RESERVED
from api.workloads import Workload, WorkloadStatus

log = logging.getLogger(__name__)

_ATTEMPTS = 5
_PAUSE = 1.0


class Scheduler:
    """Admits while it runs. `woken` is set by the feed when a cycle could do something."""

    def __init__(
        self,
        kube: Kube,
        views: Views,
        feed: Feed,
        ledger: Ledger,
        queues: PendingQueues,
        woken: asyncio.Event,
        waits: WaitReporter,
        recorder: EventRecorder,
        settings: ControllerSection,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._kube, self._views, self._feed = kube, views, feed
        self._ledger, self._queues, self._woken = ledger, queues, woken
        self._waits, self._recorder, self._settings, self._now = waits, recorder, settings, now
        self._slots = asyncio.Semaphore(settings.writes)

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as writes:
            self._woken.set()
            while True:
                await self._wait()
                self._woken.clear()
                report = self._cycle()
                for decision in report.decisions:
                    self._act(decision, writes)
                for notice in report.notices:
                    if notice.workload.blocked is None:
                        self._waits.waits(notice.workload.key, WaitReason(notice.reason, notice.message, {}))
                if report.more:
                    self._woken.set()
                # A cycle is pure computing: others get their turn before the next one.
                await asyncio.sleep(0)

    async def _wait(self) -> None:
        due = self._queues.next_due()
        pause = None if due is None else max(0.0, due - self._now())
        try:
            async with asyncio.timeout(pause):
                await self._woken.wait()
        except TimeoutError:
            log.debug("a backoff is over")

    def _cycle(self) -> CycleReport:
        started = time.perf_counter()
        report = run_cycle(self._ledger, self._queues, self._now(), self._settings.cycle_budget)
        result = "success" if any(isinstance(d, Admit) for d in report.decisions) else "inadmissible"
        metrics.ATTEMPTS.labels(result).inc()
        metrics.ATTEMPT_SECONDS.labels(result).observe(time.perf_counter() - started)
        return report

    def _act(self, decision: Decision, writes: asyncio.TaskGroup) -> None:
        match decision:
            case Admit():
                self._waits.forget(decision.workload)
                self._feed.hold(decision.workload)
                task = writes.create_task(self._admit(decision), name=f"admit {decision.workload}")
                # However it ends, also with the Lease, in the middle or before it began: the next term starts from what
                # the watch shows.
                task.add_done_callback(lambda _: self._feed.let_go(decision.workload))
            case Wait():
                said = WaitReason(decision.reason, decision.message, decision.requested, decision.never)
                self._waits.waits(decision.workload, said)
            case Reject():
                self._waits.waits(decision.workload, WaitReason(decision.reason, decision.message, {}))
            case Preempt():
                log.error("a preemption was decided that nothing can carry out: %s", decision)

    # ---- writing an admission

    async def _admit(self, decision: Admit) -> None:
        key = decision.workload
        try:
            async with self._slots:
                outcome = await self._write(decision)
            metrics.WRITES.labels(outcome).inc()
        except NotLeader:
            metrics.WRITES.labels("fenced").inc()
        except StowageError as error:
            metrics.WRITES.labels("failed").inc()
            log.warning("admission not written: %s", error, extra={"workload": key})
            await asyncio.sleep(_PAUSE)

    async def _write(self, decision: Admit) -> str:
        """Ends only when it is known what holds: an answer that was lost, or a 5xx, may yet turn out to be an admission."""
        workload, conflicts = self._views.workloads.objects.get(decision.workload), 0
        while conflicts < _ATTEMPTS:
            if workload is None or not _may_reserve(workload):
                return "obsolete"
            try:
                answer = await patch_status(self._kube, workload, self._admitted(workload, decision))
            except NotFound:
                return "obsolete"
            except (Conflict, Unreachable, ServerError) as why:
                log.info("admission to be written again: %s", why, extra={"workload": decision.workload})
                conflicts += isinstance(why, Conflict)
                workload = await self._read(workload)
                if workload is not None and is_true(workload.status.conditions, QUOTA_RESERVED):
                    return "written"  # the write that was cut off had arrived
                continue
            self._views.workloads.observe(answer)
            self._tell(workload, answer, decision.considered)
            return "written"
        return "failed"

    async def _read(self, workload: Workload) -> Workload | None:
        """The Workload as it is now; asks until there is an answer, since without one nothing may be given away."""
        meta = workload.metadata
        while True:
            try:
                now = await self._kube.get(WORKLOADS, meta.name, meta.namespace, decode=Workload.model_validate_json)
            except NotFound:
                return None
            except ApiError as error:
                log.warning("cannot read a workload: %s", error, extra={"workload": workload.key})
                await asyncio.sleep(_PAUSE)
                continue
            if now.metadata.uid != meta.uid:
                return None
            self._views.workloads.observe(now)
            return now

    def _admitted(self, workload: Workload, decision: Admit) -> WorkloadStatus:
        now, generation = self._now(), workload.metadata.generation
        admission = intake.admission(decision.admission)
        status = conditions.reserved(workload.status, admission, now, generation, decision.note)
        queue = self._views.cluster_queues.objects.get(decision.admission.cluster_queue)
        status = conditions.with_checks(status, tuple(checks_of(queue)) if queue else (), now)
        return conditions.synced_admitted(status, now, generation)

    def _tell(self, before: Workload, after: Workload, considered: str) -> None:
        admission = after.status.admission
        if admission is None:
            return
        queue, ref = admission.cluster_queue, after.spec.priority_class_ref
        waited = max(0.0, self._now() - (parse_time(before.metadata.creation_timestamp) or self._now()))
        labels = (queue, ref.name if ref else "")
        metrics.QUOTA_RESERVED.labels(*labels).inc()
        metrics.WAIT_SECONDS.labels(*labels).observe(waited)
        about = ref_to(WORKLOADS, after)
        text = f"Quota reserved in ClusterQueue {queue}, wait time since queued was {waited:.0f}s{considered}"
        self._recorder.record(about, "Normal", "QuotaReserved", text)
        if is_true(after.status.conditions, ADMITTED):
            metrics.ADMITTED.labels(*labels).inc()
            text = f"Admitted by ClusterQueue {queue}, wait time since reservation was 0s"
            self._recorder.record(about, "Normal", "Admitted", text)


def _may_reserve(workload: Workload) -> bool:
    """Whether the Workload is still one that waits: the decision was made on what was seen of it then."""
    states = workload.status.conditions
    return (
        workload.spec.active
        and not workload.metadata.deletion_timestamp
        and not is_true(states, QUOTA_RESERVED)
        and not is_true(states, FINISHED)
    )
