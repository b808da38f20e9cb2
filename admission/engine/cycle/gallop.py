"""The search for the first moment at which a head fits. Called by backfill.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def least(answer: Callable[[int], T | None], low: int, end: int, guess: int) -> tuple[int, T] | None:
    """The least of the positions `low` + 1 to `end` that has an answer, and that; assumed monotone, and None at `low`.

    From the guess in growing steps to where it must be, then by bisection.
    """
    if low >= end:
        return None
    high, stride = min(max(guess, low + 1), end), 1
    here = answer(high)
    while here is None:
        if high == end:
            return None
        low, high, stride = high, min(high + stride, end), 2 * stride
        if (here := answer(high)) is not None:
            return _between(answer, low, high, here)
    while (lower := high - stride) > low and (earlier := answer(lower)) is not None:
        high, here, stride = lower, earlier, 2 * stride
    return _between(answer, max(low, lower), high, here)


def _between(answer: Callable[[int], T | None], low: int, high: int, here: T) -> tuple[int, T]:
    """By bisection: None at `low`, `here` at `high`."""
    while high - low > 1:
        middle = (low + high) // 2
        earlier = answer(middle)
        if earlier is None:
            low = middle
        else:
            high, here = middle, earlier
    return high, here
