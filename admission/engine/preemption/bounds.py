"""The least that more victims must cost: how many are needed at least, and what so many cost at least.

All of it for the beginning of a search that goes through its candidates in a fixed order: what is left is always the end of
a list. A set covers a lack (pods without room, quota that is short) only if its members' shares in that add up to it, so no
fewer than the number of largest shares that do. Called by cheapest.py.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from itertools import accumulate

IMPOSSIBLE = 2**31
"""More victims than there are: what is left does not cover the lack."""


class Largest:
    """Of each end of a list of amounts: how many of its largest are needed to reach a sum. Exact up to `most` of them."""

    def __init__(self, amounts: Sequence[int], most: int) -> None:
        self.amounts = amounts
        kept: list[int] = []
        self._sums: list[list[int]] = [[]] * (len(amounts) + 1)
        self._total = [0] * (len(amounts) + 1)
        for index in range(len(amounts) - 1, -1, -1):
            self._total[index] = self._total[index + 1] + max(0, amounts[index])
            insort(kept, -amounts[index])
            del kept[most:]
            self._sums[index] = list(accumulate(-amount for amount in kept))

    def needed(self, start: int, deficit: int) -> int:
        """The fewest items of the list from `start` on that could cover the lack; IMPOSSIBLE if all do not."""
        if deficit <= 0:
            return 0
        if self._total[start] < deficit:
            return IMPOSSIBLE
        return bisect_left(self._sums[start], deficit) + 1


class Smallest:
    """Of each end of a list of amounts: the sum of its `count` smallest, for up to `most` of them."""

    def __init__(self, amounts: Sequence[int], most: int) -> None:
        kept: list[int] = []
        self._sums: list[list[int]] = [[0]] * (len(amounts) + 1)
        for index in range(len(amounts) - 1, -1, -1):
            insort(kept, amounts[index])
            del kept[most:]
            self._sums[index] = [0, *accumulate(kept)]

    def sum_of(self, start: int, count: int) -> int:
        """The least that so many items from `start` on add up to."""
        sums = self._sums[start]
        return sums[min(count, len(sums) - 1)]

    def least(self, start: int) -> int:
        """The smallest item from `start` on, 0 where there is none."""
        sums = self._sums[start]
        return sums[1] if len(sums) > 1 else 0


def fewest(amounts: Sequence[int], deficit: int) -> int:
    """The fewest of the amounts that add up to the lack; IMPOSSIBLE if all do not."""
    for number, amount in enumerate((0, *sorted(amounts, reverse=True))):
        deficit -= amount
        if deficit <= 0:
            return number
    return IMPOSSIBLE
