"""Names in messages."""

from __future__ import annotations

import pytest

from admission.engine.listed import listed


@pytest.mark.parametrize(
    ("names", "text"),
    [
        pytest.param([], "", id="none"),
        pytest.param(["a", "b", "c"], "a, b, c", id="as many as are named"),
        pytest.param(["a", "b", "c", "d", "e"], "a, b, c and 2 more", id="more"),
    ],
)
def test_long_lists_are_cut(names: list[str], text: str) -> None:
    assert listed(names, 3) == text
