"""Galloping (exponential) search: the first of many moments at which something fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def galloping_search(answer: Callable[[int], T | None], low: int, end: int, guess: int) -> tuple[int, T] | None:
    """Returns the least position from `low` + 1 to `end` with an answer, and the answer; None if no position has one.

    `answer` must be monotone (every position after one with an answer has one too) and None at `low`. The search goes from
    `guess` in doubling steps until the position is enclosed, then by bisection.
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
    """Returns the least position with an answer by bisection, given None at `low` and the answer `here` at `high`."""
    while high - low > 1:
        middle = (low + high) // 2
        earlier = answer(middle)
        if earlier is None:
            low = middle
        else:
            high, here = middle, earlier
    return high, here
