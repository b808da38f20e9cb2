"""Computes a plan of moves in short turns of the loop, and counts it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from admission.controllers.report.turns import Turns
from admission.engine.features.moves.plans import MovePlan, NoPlan
from admission.metrics import moves as metrics

log = logging.getLogger(__name__)

_TURN: Final = 0.01
_BETWEEN_TURNS: Final = 3.0

Found = MovePlan | NoPlan | None


async def computed(compute: Callable[[Callable[[], None]], Found], about: dict[str, str]) -> tuple[Found, float]:
    """Returns what `compute(pause)` finds, None if the cluster changed below it; and the seconds of computation.

    `about` names in logs what the plan is for.
    """
    turns = Turns(compute, _TURN, _BETWEEN_TURNS)
    try:
        result = await turns.result()
    except LookupError as missing:
        log.info("the plan starts again later", extra={**about, "missing": repr(missing)})
        return None, turns.spent
    metrics.PLAN_SECONDS.observe(turns.spent)
    if isinstance(result, NoPlan):
        metrics.PLANS.labels(result.reason).inc()
        log.info("no moves", extra={**about, "reason": result.reason, "why": result.message})
    return result, turns.spent
