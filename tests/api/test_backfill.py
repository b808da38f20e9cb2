"""The message that says from when on a workload may be evicted."""

from __future__ import annotations

import pytest

from api import backfill


@pytest.mark.parametrize(("until", "read"), [(60.0, 60.0), (60.2, 61.0), (1.8e9, 1.8e9)])
def test_it_is_read_again_to_the_second_and_never_earlier(until: float, read: float) -> None:
    assert backfill.read_until(backfill.message("ns/big", 50.0, until, until + 30.0)) == read


@pytest.mark.parametrize(
    ("start", "says"), [(60.0, "which is to start then,"), (90.0, "which is to start at 1970-01-01T00:01:30Z,")]
)
def test_it_says_when_the_head_is_to_start(start: float, says: str) -> None:
    assert says in backfill.message("ns/big", 50.0, 60.0, start)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("may be evicted from tomorrow on if", id="no time"),
        pytest.param("may be evicted from 2026-13-45T00:00:00Z on if", id="no such day"),
        pytest.param("x may be evicted from 2026-01-01T00:00:00Z on if", id="not at the beginning"),
        pytest.param("may be evicted from " + "9" * 100_000, id="very long"),
    ],
)
def test_another_text_is_as_if_there_were_none(text: str) -> None:
    assert backfill.read_until(text) is None
