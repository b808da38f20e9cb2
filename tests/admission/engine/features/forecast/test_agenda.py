"""What ends next in a replay, against sorting all ends."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine.features.forecast import agenda
from admission.engine.features.forecast.agenda import Ends, Started
from tests.budgets import quick

TIMES = st.lists(st.integers(0, 20).map(float) | st.just(inf), max_size=30)


@settings(max_examples=quick(60), deadline=None)
@given(running=TIMES, started=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9)), max_size=20))
def test_what_ends_is_due_at_its_moment_and_once(running: list[float], started: list[tuple[int, int]]) -> None:
    """Some start during the replay: each of them at a moment, for some seconds."""
    ends = Ends(np.array(running, dtype=np.float64), np.arange(len(running)))
    for number, one in enumerate(started):
        ends.put(float(sum(one)), str(number), Started(str(number), {}, ()))
    found: dict[float, list[str]] = {}
    while (at := ends.next) < inf:
        numbers, others = ends.due(at)
        assert at not in found
        found[at] = sorted([*map(str, numbers), *(f"started {one.queue}" for one in others)])
    wanted: dict[float, list[str]] = {}
    for number, last in enumerate(running):
        wanted.setdefault(last, []).append(str(number))
    for number, one in enumerate(started):
        wanted.setdefault(float(sum(one)), []).append(f"started {number}")
    wanted.pop(inf, None)
    assert found == {at: sorted(names) for at, names in wanted.items()}


def test_of_very_many_some_end_together_and_none_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agenda, "_MOMENTS", 2)
    ends = Ends(np.array([5.0, 1.0, 3.0, inf]), np.arange(4))
    assert (ends.next, ends.due(ends.next)) == (3.0, ([1, 2], []))
    assert (ends.next, ends.due(ends.next)) == (5.0, ([0], []))
    assert ends.next == inf
