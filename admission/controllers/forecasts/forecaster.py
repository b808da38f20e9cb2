"""Tells each waiting Workload when it is expected to start, as an interval with its confidence.

It learns run times from Workloads that finish and how well forecasts hold from those that start; run_time_keeper.py keeps
both over restarts. Every `period` seconds it forecasts all waiting workloads in turns of the loop, and rests
so that it takes at most a twentieth of it. The condition `stowage.dev/ExpectedStart` is written after a wait of `first`
seconds, and again only when an end of the interval moved by a quarter of the time that is left, at least a minute, or its
confidence by 5 %; at most `_WRITES` Workloads per round, so that a change of the cluster is no burst of writes. Reserving quota
removes it, and so does a forecast that finds no start. No event, no decision depends on it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from admission.controllers.forecasts.run_time_keeper import RunTimeKeeper, kind_of
from admission.controllers.report.turns import Turns
from admission.controllers.state import conditions
from admission.controllers.state.condition_table import Writer
from admission.controllers.state.conditions import with_condition
from admission.controllers.watch.cluster_view import Views
from admission.controllers.write.outcome import Outcome
from admission.controllers.write.report_writer import ReportWriter
from admission.engine.features.forecast.calibration import StartForecast
from admission.engine.features.forecast.inputs import inputs_of
from admission.engine.features.forecast.run_times import RunEstimate, RunKind
from admission.engine.features.forecast.starts import forecast
from admission.engine.features.forecast.wording import wording
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Workload as EngineWorkload
from admission.engine.queue.queues import PendingQueues
from admission.metrics import forecasts as metrics
from api.errors import StowageError
from api.kube.client import Kube
from api.kube.informers.store import Change, ChangeType
from api.meta import find_condition, is_true, parse_time
from api.names import ADMITTED, EXPECTED_START, FINISHED, QUOTA_RESERVED, WorkloadStateReason
from api.workloads import Workload, WorkloadStatus

log = logging.getLogger(__name__)

_TURN: Final = 0.01
_BETWEEN_TURNS: Final = 3.0
_REST: Final = 20.0
_WRITES: Final = 20
_INTERRUPTIONS: Final = 3
_MATERIAL: Final = 0.25
_LEAST_MOVE: Final = 60.0
_MATERIAL_CONFIDENCE: Final = 0.05
_RELIABLE: Final = 0.75
"""The confidence of a latest start, whatever the earliest one is, from which it keeps moves away."""


@dataclass(frozen=True, slots=True)
class ForecastLimits:
    """Seconds between two forecasts, and of waiting before a Workload is told."""

    period: float = 60.0
    first: float = 5.0


class Forecaster:
    """Learns from the view of Workloads from its creation on; forecasts and writes while it runs."""

    def __init__(
        self,
        kube: Kube,
        views: Views,
        ledger: Ledger,
        queues: PendingQueues,
        learned: RunTimeKeeper,
        limits: ForecastLimits | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._views, self._ledger, self._queues = views, ledger, queues
        self._reports = ReportWriter(kube, Writer.FORECASTS, observe=views.workloads.observe)
        self._limits, self._now = limits or ForecastLimits(), now
        self._learned = learned
        self._first: dict[str, StartForecast] = {}
        self._found: dict[str, StartForecast] = {}
        self._written: dict[str, StartForecast] = {}
        self._interrupted = 0
        views.workloads.add_handler(self._changed)

    async def run(self) -> None:
        """Forecasts until cancelled."""
        while True:
            began = time.perf_counter()
            spent = await self.round()
            metrics.SECONDS.observe(spent)
            await asyncio.sleep(max(self._limits.period - (time.perf_counter() - began), spent * _REST))

    async def round(self) -> float:
        """Makes one forecast and writes what moved; returns the seconds that the computation took."""
        now = self._now()
        turns = Turns(partial(self._forecast, now), _TURN, _BETWEEN_TURNS)
        try:
            forecasts = await turns.result()
            self._interrupted = 0
        except LookupError as missing:
            # State that the forecast had read disappeared during a pause. Again and again it does so by a defect alone.
            self._interrupted += 1
            facts, defect = {"missing": repr(missing)}, self._interrupted > _INTERRUPTIONS
            log.info("the forecast starts again in the next round", extra=facts, exc_info=defect)
            return turns.spent
        self._found = forecasts
        for key, one in forecasts.items():
            self._first.setdefault(key, one)
        self._forget_stopped(forecasts)
        self._count_misses()
        untrue = [one.key for one in self._queues.workloads() if one.key not in forecasts and self._is_told(one.key)]
        due = [key for key, one in forecasts.items() if self._is_due(key, one, now)]
        for key in [*untrue, *due][:_WRITES]:
            try:
                await self._write(key, forecasts.get(key))
            except (StowageError, TimeoutError) as failed:
                # The next round tries again; a Workload that changed meanwhile is a conflict.
                log.info("an expected start was not written", extra={"workload": key, "error": str(failed)})
        return turns.spent

    def _forget_stopped(self, forecasts: Mapping[str, StartForecast]) -> None:
        """Forgets what was told first where nothing is told now, such as while a user has deactivated the workload.

        Its later start says nothing about forecasts, and a few such would widen the intervals of all.
        """
        for key in [key for key in self._first if key not in forecasts and self._ledger.admission(key) is None]:
            del self._first[key]

    def _count_misses(self) -> None:
        """Counts those that still wait although their first interval is over, each once."""
        for key, one in self._first.items():
            if one.until < self._now() and not one.missed and self._ledger.admission(key) is None:
                self._learned.missed(one)
                self._first[key] = replace(one, missed=True)

    def _forecast(self, now: float, pause: Callable[[], None]) -> dict[str, StartForecast]:
        inputs = inputs_of(self._ledger, self._queues, now, self._estimate, pause)
        return forecast(inputs, self._learned.calibrations, pause=pause)

    def _estimate(self, workload: EngineWorkload) -> RunEstimate | None:
        stored = self._views.workloads.objects.get(workload.key)
        kind = RunKind(workload.queue) if stored is None else kind_of(stored)
        return self._learned.times.estimate(kind, workload.time_limit)

    def latest_start(self, key: str) -> float | None:
        """Returns by when (epoch seconds) the waiting Workload starts without help, as far as that is reliable; else None.

        It is not where none is told, since forecasts of such Workloads often failed, where too few replays were made, and once
        the latest start that was told first has passed: a forecast that is wrong must not keep help away for ever.
        """
        one, first, now = self._found.get(key), self._first.get(key), self._now()
        if one is None or one.latest is None or one.latest <= now or (1 + one.confidence) / 2 < _RELIABLE:
            return None
        missed = first is not None and first.latest is not None and first.latest < now
        return None if missed else one.latest

    # ---- learning

    def _changed(self, change: Change[Workload]) -> None:
        workload, key = change.object, change.key
        if change.type is ChangeType.DELETED:
            self._forget(key)
            return
        if key in self._first and change.old is not None and change.old.spec != workload.spec:
            del self._first[key]  # it was told for other pods, or as long as its user lets it wait
        states = workload.status.conditions
        if is_true(states, QUOTA_RESERVED) and (told := self._first.get(key)) is not None:
            self._learned.compare(self._now(), told)
            self._forget(key)
        if is_true(states, FINISHED):
            self._forget(key)
            if change.old is None or not is_true(change.old.status.conditions, FINISHED):
                self._learn(workload)

    def _learn(self, workload: Workload) -> None:
        admitted, finished = (find_condition(workload.status.conditions, kind) for kind in (ADMITTED, FINISHED))
        if admitted is None or finished is None or admitted.status != "True":
            return
        try:
            began, ended = parse_time(admitted.last_transition_time), parse_time(finished.last_transition_time)
        except ValueError:
            return
        if began is not None and ended is not None:
            self._learned.learn(kind_of(workload), began, ended)

    def _forget(self, key: str) -> None:
        self._first.pop(key, None)
        self._found.pop(key, None)
        self._written.pop(key, None)

    # ---- writing

    def _is_due(self, key: str, forecast: StartForecast, now: float) -> bool:
        workload = self._views.workloads.objects.get(key)
        pending = self._queues.workload(key)
        if workload is None or pending is None or now - pending.queued < self._limits.first or not _waits(workload):
            return False
        before = self._written.get(key)
        return before is None or _moved(before, forecast, now)

    def _is_told(self, key: str) -> bool:
        workload = self._views.workloads.objects.get(key)
        return workload is not None and find_condition(workload.status.conditions, EXPECTED_START) is not None

    async def _write(self, key: str, forecast: StartForecast | None) -> None:
        """Writes a forecast; None removes the one before."""
        workload = self._views.workloads.objects.get(key)
        if workload is None or not _waits(workload):
            return
        status, generation = workload.status, workload.metadata.generation
        if forecast is None:
            self._written.pop(key, None)
            status = conditions.without(status, EXPECTED_START)
        else:
            status = expected_start(status, wording(forecast), self._now(), generation)
        if status != workload.status and await self._reports.write(workload, status) is Outcome.OBSOLETE:
            return
        if forecast is not None and key in self._views.workloads.objects:
            self._written[key] = forecast


def expected_start(status: WorkloadStatus, message: str, now: float, generation: int = 0) -> WorkloadStatus:
    """Sets ExpectedStart=True; reserving quota removes the condition."""
    return with_condition(status, EXPECTED_START, True, WorkloadStateReason.FORECAST, message, now, generation)


def _moved(before: StartForecast, after: StartForecast, now: float) -> bool:
    """Reports whether the interval or its confidence moved enough to be written again."""
    if (before.latest is None) != (after.latest is None):
        return True
    if after.latest is not None and abs(before.confidence - after.confidence) >= _MATERIAL_CONFIDENCE:
        return True
    left = max(before.earliest, before.latest or 0.0) - now
    enough = max(_LEAST_MOVE, _MATERIAL * left)
    late = 0.0 if before.latest is None or after.latest is None else abs(before.latest - after.latest)
    # An earliest start that has passed moves with the clock, which is no news.
    return late >= enough or abs(max(before.earliest, now) - after.earliest) >= enough


def _waits(workload: Workload) -> bool:
    states = workload.status.conditions
    return not is_true(states, QUOTA_RESERVED) and not is_true(states, FINISHED)
