"""Writes the reason why each Workload waits to its status, soon after it is known and at a bounded rate.

A cycle may refuse a workload many times per second while the cluster changes; only the latest reason matters. A new reason is
written at once, with an event; new figures in the same reason at most once per period, which grows with the number of waiting
workloads; and nothing for a Workload that is admitted before its write. explainer.py computes later what would admit the
workload; only the verdict that the workload can never run is written with the reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from admission.controllers.report.explainer import Explainer
from admission.controllers.state import conditions
from admission.controllers.state.actions import PlannedEvent
from admission.controllers.state.condition_table import Writer
from admission.controllers.state.waiting_pods import only_pod, reason_of_wait
from admission.controllers.watch.cluster_view import Views
from admission.controllers.write.outcome import Outcome
from admission.controllers.write.report_writer import ReportWriter
from admission.controllers.write.status import written_reason
from admission.engine.explain.wording import NEVER
from admission.engine.reasons import Reason
from api.kube.client import Kube
from api.kube.events import EventRecorder
from api.kube.informers.store import Change, ChangeType
from api.kube.reconcile import Reconciler
from api.meta import find_condition, is_true
from api.names import EXPLANATION, FINISHED, POD_SUSPENDING_PARENT, QUOTA_RESERVED
from api.workloads import Workload, WorkloadStatus

# Most workloads that do not fit at once are admitted moments later, and their reason is then of no interest.
_FIRST_DELAY = 0.5
DEPLOYMENT: Final = "deployment"
_SURGE: Final = "; running pods of its Deployment keep their quota: with maxSurge 0 a rollout replaces them"
NUMBERS_A_SECOND: Final = 5.0
"""Rate, in writes per second for all waiting workloads, of new figures: every admission changes them for all workloads behind
it.
"""


@dataclass(frozen=True, slots=True)
class WaitReason:
    """The content of QuotaReserved=False."""

    reason: str
    message: str
    requested: Mapping[str, Mapping[str, int]]
    never: bool = False
    """Whether the workload would not fit even in an empty cluster, which is written too."""
    gated: bool = False
    """Whether only closed preemption gates hold it."""


class WaitReporter:
    """Writes wait reasons while it runs."""

    def __init__(
        self,
        kube: Kube,
        views: Views,
        recorder: EventRecorder,
        period: float,
        now: Callable[[], float] = time.time,
        explainer: Explainer | None = None,
    ) -> None:
        self._views, self._recorder, self._period, self._now = views, recorder, period, now
        self._reports = ReportWriter(kube, Writer.WAIT_REASONS, recorder, views.workloads.observe)
        self._explainer = explainer
        self._waits: dict[str, WaitReason] = {}
        self._written: dict[str, float] = {}
        self.reconciler = Reconciler("wait-reasons", self._report, workers=4)
        views.workloads.add_handler(self._workload_changed)

    def waits(self, key: str, wait: WaitReason) -> None:
        """Notes a cycle's latest reason for the Workload; the status may have changed since the same reason was noted
        before."""
        self._waits[key] = wait
        if self._explainer is not None:
            self._explainer.waits(key, wait.reason)
        workload = self._views.workloads.objects.get(key)
        if workload is not None and not _is_written(workload, wait):
            since = self._now() - self._written.get(key, 0.0)
            period = max(self._period, len(self._waits) / NUMBERS_A_SECOND) if self._period else 0.0
            patience = period - since if reason_of_wait(workload) == written_reason(wait.reason, wait.message) else 0.0
            self.reconciler.add_after(key, max(_FIRST_DELAY, patience))

    def decided(self, key: str) -> str | None:
        """Returns the reason, as written, for which the latest cycle lets the Workload wait, or None."""
        wait = self._waits.get(key)
        return None if wait is None else written_reason(wait.reason, wait.message)

    def forget(self, key: str) -> None:
        """Drops a workload that no longer waits."""
        self._waits.pop(key, None)
        self._written.pop(key, None)
        self.reconciler.queue.drop_plan(key)
        if self._explainer is not None:
            self._explainer.forget(key)

    def _workload_changed(self, change: Change[Workload]) -> None:
        if change.type is ChangeType.DELETED:
            self.forget(change.key)
        elif change.key in self._waits and reason_of_wait(change.object) == written_reason(
            Reason.PENDING_EVALUATION, conditions.NOT_EVALUATED
        ):
            # The workload may queue again, but a cycle decided before the watch showed that.
            self.reconciler.add_after(change.key, _FIRST_DELAY)

    async def _report(self, key: str) -> None:
        wait, workload = self._waits.get(key), self._views.workloads.objects.get(key)
        if wait is None or workload is None or not _waiting(workload):
            self.forget(key)
            return
        if _is_written(workload, wait):
            return
        status = conditions.waiting(
            workload.status, wait.reason, wait.message, wait.requested, self._now(), workload.metadata.generation
        )
        generation = workload.metadata.generation
        if wait.gated:
            status = conditions.preemption_gated(status, wait.message, self._now(), generation)
        else:
            status = conditions.gates_opened(status, wait.reason, self._now(), generation)
        if wait.never:
            status = _cannot_run(workload, status, self._now())
        reason, text = (
            written_reason(wait.reason, wait.message),
            f"{wait.message}; {NEVER}" if wait.never else wait.message,
        )
        is_new = reason_of_wait(workload) != reason
        events = (PlannedEvent(reason, text, "Warning"),) if is_new else ()
        if await self._reports.write(workload, status, *events) is Outcome.OBSOLETE:
            self.forget(key)
            return
        if key in self._views.workloads.objects:
            self._written[key] = self._now()
        if is_new and (pod := only_pod(workload)) is not None:
            self._recorder.record(pod, "Warning", reason, text + of_rollout(workload, wait.reason))


def of_rollout(workload: Workload, reason: str) -> str:
    """Returns what helps a Deployment whose new pod waits for the quota that the older ones hold, or an empty text."""
    parent = workload.metadata.annotations.get(POD_SUSPENDING_PARENT)
    return _SURGE if parent == DEPLOYMENT and reason == Reason.WAITING_FOR_QUOTA else ""


def _cannot_run(workload: Workload, status: WorkloadStatus, now: float) -> WorkloadStatus:
    """Adds the verdict CannotRun, unless an explanation with that verdict, which also names remedies, is present."""
    before = find_condition(status.conditions, EXPLANATION)
    if before is not None and before.reason == Reason.CANNOT_RUN:
        return status
    return conditions.explained(status, Reason.CANNOT_RUN, NEVER, now, workload.metadata.generation)


def _is_written(workload: Workload, wait: WaitReason) -> bool:
    """Reports whether the status states this reason already."""
    reserved = find_condition(workload.status.conditions, QUOTA_RESERVED)
    expected = ("False", written_reason(wait.reason, wait.message), wait.message)
    return reserved is not None and (reserved.status, reserved.reason, reserved.message) == expected


def _waiting(workload: Workload) -> bool:
    conditions_ = workload.status.conditions
    return not is_true(conditions_, QUOTA_RESERVED) and not is_true(conditions_, FINISHED)
