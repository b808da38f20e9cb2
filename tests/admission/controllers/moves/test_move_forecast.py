"""Moves for a gang whose latest start is forecast: none if it loses less by waiting."""

from __future__ import annotations

from typing import Any

import pytest

from api.names import MOVE_COST
from tests.admission.controllers.moves.test_move_times import TwoRacks
from tests.builders import NOW

DEVICES, COST = 4, 600


class ForecastRacks(TwoRacks):
    """The mover loses ten minutes of work by a move; the gang of four devices starts at the latest so many seconds from now."""

    def __init__(self, latest: float | None) -> None:
        self.latest = latest
        super().__init__()
        self.controller._latest_start = self.latest_start

    def latest_start(self, key: str) -> float | None:
        assert key == "ns/gang"
        return None if self.latest is None else NOW + self.latest

    def runs(self, name: str, node: str, terms: dict[str, str], *more: Any) -> None:
        super().runs(name, node, {**terms, MOVE_COST: f"{COST}s"}, *more)


@pytest.mark.parametrize(
    ("latest", "moved"),
    [
        pytest.param(None, [0], id="unknown"),
        pytest.param(COST / DEVICES, [0], id="the wait costs as much"),
        pytest.param(COST / DEVICES - 1, [], id="the wait costs less"),
    ],
)
async def test_moves_are_made_unless_the_gang_loses_less_by_waiting(latest: float | None, moved: list[int]) -> None:
    assert await ForecastRacks(latest).play(5) == moved
