"""How often queues are told of when few change, and when many do."""

from __future__ import annotations

import pytest

from admission.controllers.queues import patience


@pytest.mark.parametrize(
    ("period", "planned", "seconds"),
    [(1.0, 0, 1.0), (1.0, 20, 1.0), (1.0, 60, 3.0), (1.0, 2000, 10.0), (30.0, 2000, 30.0), (0.0, 2000, 0.0)],
    ids=["one queue", "as many as go in a period", "more", "never for ever", "a longer period holds", "at once"],
)
def test_a_status_waits_longer_where_many_queues_change(period: float, planned: int, seconds: float) -> None:
    assert patience(period, planned) == seconds
