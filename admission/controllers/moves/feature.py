"""Moves as a feature of the controller: it makes them, and adds to explanations which of them nobody has allowed."""

from __future__ import annotations

from collections.abc import Callable

from admission.controllers.decide.feature import SchedulerFeature
from admission.controllers.decide.scheduler import Scheduler
from admission.controllers.decide.scheduler_context import SchedulerContext
from admission.controllers.moves.move_controller import MoveController
from admission.controllers.watch.feature import FeatureContext, LatestStart
from admission.engine import model
from admission.engine.features.moves.hint import move_hint
from admission.engine.features.moves.waiting import latest_start
from admission.engine.scheduler_state import SchedulerState


class Moves(SchedulerFeature):
    """Is on in each controller, which makes moves by itself with `controller.moves` and otherwise on request."""

    def __init__(self, context: FeatureContext) -> None:
        self._context, self._enabled = context, context.settings.controller.moves

    def join(
        self, scheduler: Scheduler, context: SchedulerContext, state: SchedulerState, latest_start: LatestStart
    ) -> None:
        """Plans for those that the scheduler lets wait, and before those that it evicts for others."""
        shared = self._context
        moves = MoveController(shared.writer, shared.views, context, scheduler, shared.recorder, state, latest_start)
        self.runs = (("moves", moves.run),)

    def hint(self, workload: model.Workload, now: float, starts: LatestStart, pause: Callable[[], None]) -> str | None:
        """Returns the moves that would give the workload a place and are not allowed."""
        latest = latest_start(self._context.queues, workload, starts)
        hint = move_hint(self._context.ledger, workload, now, pause, enabled=self._enabled, latest=latest)
        return None if hint is None else hint.text(enabled=self._enabled)
