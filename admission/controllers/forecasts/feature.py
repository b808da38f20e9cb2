"""Forecasts as a feature of the controller: it learns run times, writes expected starts, and guesses how long workloads run."""

from __future__ import annotations

from admission.controllers.forecasts.forecaster import Forecaster, ForecastLimits
from admission.controllers.forecasts.guesses import Guesses
from admission.controllers.forecasts.run_time_keeper import RunTimeKeeper
from admission.controllers.watch.feature import ControllerFeature, FeatureContext
from admission.settings import AdmissionSettings
from api.workloads import Workload


class Forecasts(ControllerFeature):
    """Is on by `controller.forecasts`."""

    def __init__(self, context: FeatureContext) -> None:
        writer, views, queues, section = context.writer, context.views, context.queues, context.settings.controller
        learned = RunTimeKeeper(writer, context.recorder, context.settings.namespace, section.run_times_period)
        self._guesses = Guesses(views, queues, learned.times, context.cycle_due.set, section.forecast_period)
        limits = ForecastLimits(section.forecast_period, section.explain_after)
        self._forecaster = Forecaster(writer, views, context.ledger, queues, learned, limits)
        self.runs = (
            ("run times", learned.run),
            ("forecasts", self._forecaster.run),
            ("guesses", self._guesses.run),
        )

    @staticmethod
    def is_on(settings: AdmissionSettings) -> bool:
        """Reports whether forecasts are on."""
        return settings.controller.forecasts

    def guess(self, workload: Workload) -> float | None:
        """Returns the guess by learned run times."""
        return self._guesses.of(workload)

    def latest_start(self, key: str) -> float | None:
        """Returns the forecast latest start."""
        return self._forecaster.latest_start(key)
