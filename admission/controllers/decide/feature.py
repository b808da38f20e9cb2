"""A feature that acts beside the scheduler. It has the hooks of all features (watch/feature.py), and one more."""

from __future__ import annotations

from admission.controllers.decide.scheduler import Scheduler
from admission.controllers.decide.scheduler_context import SchedulerContext
from admission.controllers.watch.feature import ControllerFeature, LatestStart
from admission.engine.scheduler_state import SchedulerState


class SchedulerFeature(ControllerFeature):
    """Joins the scheduler before anything runs."""

    def join(
        self,
        scheduler: Scheduler,
        context: SchedulerContext,
        state: SchedulerState,
        latest_start: LatestStart,
    ) -> None:
        """Registers with the scheduler; `latest_start` is the answer of all features."""
