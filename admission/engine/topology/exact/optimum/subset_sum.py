"""Chooses k domains that hold the need with the least stranded slices, ignoring the tree: a subset-sum problem.

Let t be the k-th largest capacity. A choice of k domains holds less than the k largest by its deficit: the sum of c - t over
every c > t left out and of t - c over every c < t taken. The choice holds the need if its deficit is at most slack = (sum of
the k largest) - need. If k is the fewest possible, slack < t, however large the tree is. The choice with the least stranded
slices has the largest deficit up to the slack. The pairs (balance, deficit) that subsets of the capacities can reach, where
the balance is the number of domains of capacity t taken beyond those among the k largest, are the bits of one integer, and
one shift adds one domain. To leave the largest domains whole, the choice proceeds from the largest capacity down and takes
as few domains of each as the rest permits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

_MOST_BITS = 1 << 22
"""The largest size of all tables together. Only thousands of distinct capacities exceed it; then nothing is computed."""


@dataclass(frozen=True, slots=True)
class CapacityCounts:
    """Distinct capacities, descending and above zero, and the number of domains with each."""

    values: Sequence[int]
    counts: Sequence[int]


@dataclass(frozen=True, slots=True)
class Top:
    """The k largest domains."""

    k: int
    last: int
    """The capacity of the smallest of them."""
    of_last: int
    """How many of them have that capacity."""
    slack: int
    """The slices that they hold beyond the need."""


def fewest(capacities: CapacityCounts, need: int) -> Top | None:
    """Returns the fewest domains that hold the need; None if all of them do not."""
    k, have = 0, 0
    for value, count in zip(capacities.values, capacities.counts, strict=True):
        if have + value * count >= need:
            of_last = -(-(need - have) // value)
            return Top(k + of_last, value, of_last, have + of_last * value - need)
        k, have = k + count, have + value * count
    return None


@dataclass(frozen=True, slots=True)
class _CapacityRange:
    """A capacity other than t: its deficit in units, and the most domains that may be left out (`sign` 1) or taken (-1)."""

    value: int
    sign: int
    deficit: int
    most: int


class SubsetSum:
    """The subset-sum problem for one set of capacities."""

    def __init__(self, capacities: CapacityCounts, top: Top) -> None:
        self._top, self._capacities = top, capacities
        some = [(v, c) for v, c in zip(capacities.values, capacities.counts, strict=True) if self._matters(v)]
        # Deficits are counted in units of their greatest common divisor.
        self._unit = gcd(*(value - top.last for value, _ in some)) or 1
        self._slack = top.slack // self._unit
        self._some = [self._kind(value, count) for value, count in some]
        self._of_t = dict(zip(capacities.values, capacities.counts, strict=True))[top.last]
        self._wide = self._slack + 1
        self._low = min(sum(kind.most for kind in self._some if kind.sign < 0), self._slack)
        rows = self._low + min(sum(kind.most for kind in self._some if kind.sign > 0), self._slack) + 1
        self.bits = rows * self._wide * (len(self._some) + 1)
        self._rows = rows

    def _matters(self, value: int) -> bool:
        return value != self._top.last and abs(value - self._top.last) <= self._top.slack

    def _kind(self, value: int, count: int) -> _CapacityRange:
        deficit = abs(value - self._top.last) // self._unit
        return _CapacityRange(value, 1 if value > self._top.last else -1, deficit, min(count, self._slack // deficit))

    def solve(self) -> tuple[int, dict[int, int]] | None:
        """Returns (stranded slices, number of domains by capacity); None if the tables would be too large."""
        if self.bits > _MOST_BITS:
            return None
        tables = self._tables()
        # The balance: at most the domains of t among the k largest can be left out, and at most the others can be added.
        low, high = -self._top.of_last, self._of_t - self._top.of_last
        deficit = self._largest_deficit(tables[0], low, high)
        return self._top.slack - deficit * self._unit, self._choose(tables, deficit, low, high)

    def _choose(self, tables: list[int], deficit: int, low: int, high: int) -> dict[int, int]:
        chosen = {value: count for value, count in self._all() if value > self._top.last}
        balance, at = 0, 0
        some = self._some
        while at < len(some) and some[at].sign > 0:
            kind = some[at]
            out = next(
                y
                for y in range(kind.most, -1, -1)
                if self._balances(tables[at + 1], deficit - y * kind.deficit, low - balance - y, high - balance - y)
            )
            chosen[kind.value] -= out
            balance, deficit, at = balance + out, deficit - out * kind.deficit, at + 1
        left = range(max(low - balance, -self._low), high - balance + 1)
        taken = -next(b for b in left if self._balances(tables[at], deficit, b, b))
        chosen[self._top.last] = self._top.of_last + balance - taken
        for below in range(at, len(some)):
            kind = some[below]
            more = next(
                x
                for x in range(kind.most + 1)
                if self._balances(tables[below + 1], deficit - x * kind.deficit, x - taken, x - taken)
            )
            chosen[kind.value] = more
            taken, deficit = taken - more, deficit - more * kind.deficit
        return {value: count for value, count in chosen.items() if count}

    def _all(self) -> list[tuple[int, int]]:
        return list(zip(self._capacities.values, self._capacities.counts, strict=True))

    def _tables(self) -> list[int]:
        """Returns, by position, the (balance, deficit) pairs that the capacities from there on can reach, as bits."""
        wide = self._wide
        ones = ((1 << wide * self._rows) - 1) // ((1 << wide) - 1)
        tables = [1 << self._low * wide]
        for kind in reversed(self._some):
            keep = ones * ((1 << wide - kind.deficit) - 1)
            step = kind.sign * wide + kind.deficit
            table = moved = tables[-1]
            for _ in range(kind.most):
                moved &= keep
                moved = (moved << step if step >= 0 else moved >> -step) & ((1 << wide * self._rows) - 1)
                table |= moved
            tables.append(table)
        tables.reverse()
        return tables

    def _largest_deficit(self, table: int, low: int, high: int) -> int:
        """Returns the largest deficit with a balance in the range. There is one: the k largest domains have deficit 0."""
        deficits, row = 0, (1 << self._wide) - 1
        for balance in range(max(low + self._low, 0), min(high + self._low, self._rows - 1) + 1):
            deficits |= table >> balance * self._wide & row
        return deficits.bit_length() - 1

    def _balances(self, table: int, deficit: int, low: int, high: int) -> bool:
        """Reports whether the table has this deficit with a balance in the range."""
        low, high = max(low + self._low, 0), min(high + self._low, self._rows - 1)
        if deficit < 0 or low > high:
            return False
        wide = self._wide
        ones = ((1 << wide * (high - low + 1)) - 1) // ((1 << wide) - 1)
        return bool((table >> low * wide + deficit) & ones)
