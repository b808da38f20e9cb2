"""Lower bounds for the rest of a search: how many more victims it needs, and what they cost at least.

branch_and_bound.py and victim_search.py call it. A search goes through its candidates in a fixed order, so what remains is
always the tail of a list. A set covers a deficit (pods without capacity, or missing quota) only if the shares of its members
add up to it. So it needs at least n members, where n is the least number of largest shares that add up to the deficit.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from itertools import accumulate

IMPOSSIBLE = 2**31
"""Larger than any number of victims: the remaining candidates cannot cover the deficit."""


class LargestAmounts:
    """For each tail of a list of amounts, how many of its largest amounts reach a sum. Exact for up to `most` amounts."""

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
        """Returns a lower bound of how many items of `amounts[start:]` cover the deficit; IMPOSSIBLE if all of them do not."""
        if deficit <= 0:
            return 0
        if self._total[start] < deficit:
            return IMPOSSIBLE
        return bisect_left(self._sums[start], deficit) + 1


class SmallestAmounts:
    """For each tail of a list of amounts, the sum of its n smallest amounts, for n up to `most`."""

    def __init__(self, amounts: Sequence[int], most: int) -> None:
        kept: list[int] = []
        self._sums: list[list[int]] = [[0]] * (len(amounts) + 1)
        for index in range(len(amounts) - 1, -1, -1):
            insort(kept, amounts[index])
            del kept[most:]
            self._sums[index] = [0, *accumulate(kept)]

    def sum_of(self, start: int, count: int) -> int:
        """Returns the least sum of `count` items of `amounts[start:]`."""
        sums = self._sums[start]
        return sums[min(count, len(sums) - 1)]

    def least(self, start: int) -> int:
        """Returns the smallest item of `amounts[start:]`, or 0 if there is none."""
        sums = self._sums[start]
        return sums[1] if len(sums) > 1 else 0


class SortedAmounts:
    """Amounts in descending order, for many questions about the same amounts."""

    def __init__(self, amounts: Iterable[int]) -> None:
        each = list(amounts)
        self.total = sum(each)
        self._sums = list(accumulate(sorted((amount for amount in each if amount > 0), reverse=True)))

    def largest(self, number: int) -> int:
        """Returns the sum of so many of the largest amounts."""
        return self._sums[min(number, len(self._sums)) - 1] if number and self._sums else 0

    def fewest(self, deficit: int) -> int:
        """Returns the smallest number of amounts that add up to the deficit; IMPOSSIBLE if all of them do not."""
        if deficit <= 0:
            return 0
        number = bisect_left(self._sums, deficit) + 1
        return IMPOSSIBLE if number > len(self._sums) else number


def fewest(amounts: Sequence[int], deficit: int) -> int:
    """Returns the smallest number of amounts that add up to the deficit; IMPOSSIBLE if all of them do not."""
    for number, amount in enumerate((0, *sorted(amounts, reverse=True))):
        deficit -= amount
        if deficit <= 0:
            return number
    return IMPOSSIBLE
