"""The forecaster, the mover and the explainer together: who is moved for, and what the gang's status says.

The gang of four devices starts once `mover` has ended, which has a time limit. A move of it loses ten minutes of work.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import reduce
from typing import Any, cast

import pytest

from admission.controllers.forecasts.forecaster import Forecaster, ForecastLimits
from admission.controllers.forecasts.run_time_keeper import RunTimeKeeper
from admission.controllers.moves.feature import Moves
from admission.controllers.report.explainer import Explainer, ExplanationLimits
from admission.controllers.watch.cluster_view import Views
from admission.controllers.watch.cycle_due import CycleDue
from admission.controllers.watch.feature import FeatureContext
from admission.engine.features.forecast.calibration import Calibrations, StartForecast
from admission.integrations.pods.pod import QueuedPod
from admission.settings import AdmissionSettings
from api.kube.client import Kube
from api.kube.events import EventRecorder
from api.kube.informers.informer import Informer
from api.kube.resources import WORKLOADS
from api.meta import find_condition
from api.names import EXPECTED_START, EXPLANATION, MOVABLE, MOVE_COST
from api.workloads import Workload
from tests.admission.controllers.moves.test_move_times import TwoRacks
from tests.admission.engine.features.forecast.known import CERTAIN
from tests.builders import NOW

COST = 600
SOON, LATE = 100, 1000
NEVER_ENDS = 100_000


class ForecastedRacks(TwoRacks):
    """Two racks with a forecaster and an explainer, which are asked once. `limit` is the time limit of `mover` from now on."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        for name, seconds in (("mover", limit), ("stays", NEVER_ENDS)):
            running = self.world.ledger.workload(f"ns/{name}")
            assert running is not None
            limited = replace(
                running, time_limit=float(seconds), admitted=NOW, admission=self.world.ledger.admission(running.key)
            )
            self.world.apply(limited)
        view: Any = self.objects.view
        kube, recorder = cast("Kube", self), cast("EventRecorder", self)
        views, ledger, queues = cast("Views", view), self.world.ledger, self.world.queues
        self.learned = RunTimeKeeper(kube, recorder, "stowage-system", 300.0, self.clock)
        self.learned.calibrations = CERTAIN
        self.forecaster = Forecaster(kube, views, ledger, queues, self.learned, ForecastLimits(first=0.0), self.clock)
        settings = AdmissionSettings(controller={"moves": True})
        pods, due = cast("Informer[QueuedPod]", None), CycleDue()
        feature = Moves(FeatureContext(kube, kube, settings, views, recorder, ledger, queues, pods, due))
        self.explainer = Explainer(
            kube,
            views,
            ledger,
            queues,
            recorder,
            ExplanationLimits(first=0.0),
            self.clock,
            hint=lambda waits, now, pause: feature.hint(waits, now, self.forecaster.latest_start, pause),
        )
        self.controller._latest_start = self.forecaster.latest_start

    def runs(self, name: str, node: str, terms: dict[str, str], *more: Any) -> None:
        given = {**terms, MOVE_COST: f"{COST}s"} if MOVABLE in terms else terms
        super().runs(name, node, given, *more)

    async def patch(self, _: object, name: str, *more: Any, **named: Any) -> Any:
        """Statuses of the gang are written; the first move is the last write."""
        if name != "gang":
            await super().patch(_, name)
        made = self.gang.to_wire()
        made["status"] = {**made.get("status", {}), **more[0]["status"]}
        self.add(WORKLOADS, made)
        return self.gang

    @property
    def gang(self) -> Workload:
        """The gang's Workload as its user sees it."""
        found = self.objects.view.workloads.objects["ns/gang"]
        assert isinstance(found, Workload)
        return found

    async def forecast_and_explain(self) -> None:
        """One round of the forecaster after the first cycle, and an explanation."""
        cycles = asyncio.create_task(self.scheduler.run())
        await asyncio.wait_for(self.waited.wait(), 30)
        cycles.cancel()
        await self.forecaster.round()
        await self.explainer._explain("ns/gang")

    def says(self, kind: str) -> str:
        """The message of the gang's condition of that type; empty without one."""
        found = find_condition(self.gang.status.conditions, kind)
        return "" if found is None else found.message


def missed(count: int) -> Calibrations:
    """So many workloads with a topology request started long after the latest start that they had been told."""
    told = StartForecast(NOW - 9000, NOW - 8990, 0.9, True, "cq", NOW - 9000, NOW - 9000, NOW - 8990, NOW - 8990)
    return reduce(lambda expected, number: expected.after(NOW - count + number, told), range(count), CERTAIN)


async def test_nothing_moves_for_a_gang_that_is_expected_to_start_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("admission.controllers.report.explainer._REST", 0.0)
    racks = ForecastedRacks(SOON)
    await racks.forecast_and_explain()
    assert racks.says(EXPECTED_START).endswith("with 99% confidence")
    lost = f"their moves would lose {COST} device-seconds of work, and its wait loses {4 * SOON} at most"
    assert f"ns/mover could leave rack-of-n1/n1 for other places, and stay: {lost}" in racks.says(EXPLANATION)
    assert await racks.play(5) == []


@pytest.mark.parametrize(
    ("limit", "misses", "told"),
    [
        pytest.param(LATE, 0, "with 99% confidence", id="late"),
        pytest.param(SOON, 30, "no latest start is known", id="such forecasts have failed"),
    ],
)
async def test_the_mover_leaves_for_a_gang_whose_start_is_late_or_unknown(
    monkeypatch: pytest.MonkeyPatch, limit: int, misses: int, told: str
) -> None:
    monkeypatch.setattr("admission.controllers.report.explainer._REST", 0.0)
    racks = ForecastedRacks(limit)
    racks.learned.calibrations = missed(misses)
    await racks.forecast_and_explain()
    assert racks.says(EXPECTED_START).endswith(told)
    assert "and stay" not in racks.says(EXPLANATION)
    assert await racks.play(5) == [0]
