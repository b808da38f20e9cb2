"""Durations as people write them."""

from __future__ import annotations

import pytest

from api.text.duration import seconds


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("5s", 5.0), ("200ms", 0.2), ("1m30s", 90.0), ("1.5h", 5400.0), ("0", 0.0), (".5s", 0.5), ("10m", 600.0)],
)
def test_durations(text: str, wanted: float) -> None:
    assert seconds(text) == pytest.approx(wanted)


@pytest.mark.parametrize("text", ["", "5", "5 s", "s5", "1x", "-1s", "1m ", "٣s", "1" * 5000 + "s", "ten minutes"])
def test_no_durations(text: str) -> None:
    with pytest.raises(ValueError, match="must be a duration"):
        seconds(text)
