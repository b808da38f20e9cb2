"""Explains why a Workload keeps waiting: what blocks it and what would admit it, in one line.

wait_reasons.py calls it with each reason that a cycle gives. An explanation is computed on the live ledger and costs many
placements where a decision costs one. So it starts only after `ExplanationLimits.first` seconds (most waits are shorter), for
one Workload at a time, within a budget, and in short turns with pauses that bound its share of the loop (turns.py). It is
written to the condition `stowage.dev/Explanation` and as an event, once per reason and at most once per period. `stowage
explain` prints the same value in full.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from admission.controllers.report.turns import Turns
from admission.controllers.state import conditions
from admission.controllers.state.actions import PlannedEvent
from admission.controllers.state.condition_table import Writer
from admission.controllers.watch.cluster_view import Views
from admission.controllers.write.outcome import Outcome
from admission.controllers.write.report_writer import ReportWriter
from admission.engine.explain.cycle_decision import DecisionInputs
from admission.engine.explain.explain import explain
from admission.engine.explain.explanation import Explanation, Verdict
from admission.engine.explain.wording import headline
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Workload as EngineWorkload
from admission.engine.queue.queues import PendingQueues
from admission.engine.quota.fairness import FairSharingRules
from admission.engine.reasons import Reason
from admission.metrics import controller as metrics
from api.kube.client import Kube
from api.kube.events import EventRecorder
from api.kube.reconcile import Reconciler
from api.meta import find_condition, is_true
from api.names import EXPLANATION, FINISHED, QUOTA_RESERVED
from api.workloads import Workload

log = logging.getLogger(__name__)

_TURN = 0.01
"""Seconds of a turn. A placement that has begun is completed: at 15,000 nodes a turn may take 50 ms."""
_BETWEEN_TURNS = 5.0
"""Seconds left to other work for each second of a turn."""
_REST = 50.0
"""Seconds of rest for each second of explaining, which bounds the share of the loop to a fiftieth."""
_INTERRUPTIONS = 3
"""So often in a row what an explanation had read may disappear; oftener is a defect, and logged with its traceback."""
Hint = Callable[[EngineWorkload, float, Callable[[], None]], str | None]
"""Says at this time, calling `pause` often, what else would give the workload a place."""


def _no_hint(*_: object) -> None:
    return None


@dataclass(frozen=True, slots=True)
class ExplanationLimits:
    """Seconds before a wait is explained; seconds between two explanations for one reason; placements per explanation."""

    first: float = 5.0
    period: float = 300.0
    budget: int = 100


class Explainer:
    """Explains waiting workloads while its reconciler runs; `sharing` and `startable` are those of the scheduler.

    `hint` says what else would give a workload that lacks a place one.
    """

    def __init__(
        self,
        kube: Kube,
        views: Views,
        ledger: Ledger,
        queues: PendingQueues,
        recorder: EventRecorder,
        patience: ExplanationLimits | None = None,
        now: Callable[[], float] = time.time,
        *,
        sharing: FairSharingRules | None = None,
        startable: Callable[[], int | None] = lambda: None,
        hint: Hint = _no_hint,
    ) -> None:
        self._views, self._ledger, self._queues = views, ledger, queues
        self._reports = ReportWriter(kube, Writer.EXPLANATIONS, recorder, views.workloads.observe)
        self._patience, self._now = patience or ExplanationLimits(), now
        self._sharing, self._startable, self._hint = sharing, startable, hint
        self._reported: dict[str, tuple[str, float]] = {}
        self._interrupted: dict[str, int] = {}
        self.reconciler = Reconciler("explanations", self._explain, workers=1)

    def waits(self, key: str, reason: str) -> None:
        """Notes that a cycle has just found this reason for the Workload's wait."""
        reported, at = self._reported.get(key, ("", 0.0))
        if reported != reason:
            self.reconciler.add_after(key, self._patience.first)
        else:
            self.reconciler.add_after(key, max(self._patience.first, at + self._patience.period - self._now()))

    def forget(self, key: str) -> None:
        """Drops a workload that no longer waits."""
        self._reported.pop(key, None)
        self._interrupted.pop(key, None)
        self.reconciler.queue.drop_plan(key)

    async def _explain(self, key: str) -> None:
        workload, pending = self._views.workloads.objects.get(key), self._queues.workload(key)
        if workload is None or pending is None or not _waits(workload):
            self.forget(key)
            return
        inputs = DecisionInputs(self._queues, self._sharing, self._startable())
        explaining = partial(explain, self._ledger, pending, self._now(), budget=self._patience.budget, inputs=inputs)

        def compute(pause: Callable[[], None]) -> tuple[Explanation, str | None]:
            made = explaining(pause=pause)
            lacks_place = made.verdict is Verdict.WAITS and made.reason == Reason.TOPOLOGY_PLACEMENT_FAILED
            return made, self._hint(pending, self._now(), pause) if lacks_place else None

        turns = Turns(compute, _TURN, _BETWEEN_TURNS)
        try:
            explanation, hint = await turns.result()
            self._interrupted.pop(key, None)
            metrics.EXPLAIN_SECONDS.labels(explanation.verdict).observe(turns.spent)
            if explanation.verdict in (Verdict.WAITS, Verdict.CANNOT_RUN) and self._queues.workload(key) is not None:
                await self._write(workload, explanation, hint)
        except LookupError as missing:
            # State that the explanation had read disappeared during a pause.
            times = self._interrupted[key] = self._interrupted.get(key, 0) + 1
            facts = {"workload": key, "missing": repr(missing)}
            log.info("the explanation starts again", extra=facts, exc_info=times > _INTERRUPTIONS)
            self.reconciler.add_after(key, self._patience.first)
        except Exception:
            # Rest after any failure too, such as a failed write: an immediate retry would occupy the loop. A cancellation is
            # no Exception and ends at once.
            await asyncio.sleep(turns.spent * _REST)
            raise
        await asyncio.sleep(turns.spent * _REST)

    async def _write(self, workload: Workload, explanation: Explanation, hint: str | None) -> None:
        code, text = code_of(explanation), headline(explanation)
        if hint is not None:
            text = f"{text}; {hint}"
        status = conditions.explained(workload.status, code, text, self._now(), workload.metadata.generation)
        before = find_condition(workload.status.conditions, EXPLANATION)
        outcome = Outcome.UNCHANGED
        if before is None or (before.reason, before.message) != (code, text):
            outcome = await self._reports.write(workload, status, PlannedEvent("Explanation", text))
        if outcome is Outcome.OBSOLETE:
            self.forget(workload.key)
            return
        if workload.key in self._views.workloads.objects:
            self._reported[workload.key] = (explanation.reason, self._now())


def code_of(explanation: Explanation) -> str:
    """Returns the reason of the condition."""
    return Reason.CANNOT_RUN if explanation.verdict is Verdict.CANNOT_RUN else explanation.reason


def _waits(workload: Workload) -> bool:
    conditions = workload.status.conditions
    return not is_true(conditions, QUOTA_RESERVED) and not is_true(conditions, FINISHED)
