"""Completed indexes of an Indexed Job in the status format `0-2,5`. Pure; called by jobs.py."""

from __future__ import annotations

from collections.abc import Iterable


def parse(text: str | None) -> set[int]:
    """Parses indexes such as `0-2,5`."""
    indexes: set[int] = set()
    for part in (text or "").split(","):
        if part:
            first, _, last = part.partition("-")
            indexes.update(range(int(first), int(last or first) + 1))
    return indexes


def text(indexes: Iterable[int]) -> str:
    """Formats indexes in the shortest form, in order.

    >>> text([5, 0, 1, 2])
    '0-2,5'
    """
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    # two adjacent indexes are written separately, as the Job controller does
    parts = (f"{a}" if a == b else f"{a},{b}" if b == a + 1 else f"{a}-{b}" for a, b in runs)
    return ",".join(parts)
