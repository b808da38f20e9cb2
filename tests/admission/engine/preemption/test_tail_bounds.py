"""The bounds of the search for the cheapest victims, against counting by hand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from admission.engine.preemption.tail_bounds import (
    IMPOSSIBLE,
    LargestAmounts,
    SmallestAmounts,
    SortedAmounts,
    fewest,
)

amounts = st.lists(st.integers(0, 9), max_size=9)


@given(amounts, st.integers(-3, 40), st.integers(1, 9))
def test_so_many_are_needed_at_least(values: list[int], deficit: int, most: int) -> None:
    largest = LargestAmounts(values, most)
    for start in range(len(values) + 1):
        exact = fewest(values[start:], deficit)
        told = largest.needed(start, deficit)
        assert told == (exact if exact in (0, IMPOSSIBLE) or exact <= most else most + 1)


@given(amounts, st.integers(0, 40))
def test_fewest_is_the_smallest_number_that_reaches_the_lack(values: list[int], deficit: int) -> None:
    count = fewest(values, deficit)
    best = sorted(values, reverse=True)
    if count == IMPOSSIBLE:
        assert sum(values) < deficit
    else:
        assert sum(best[:count]) >= deficit
        assert count == 0 or sum(best[: count - 1]) < deficit


@given(amounts, st.integers(0, 9))
def test_so_many_cost_at_least(values: list[int], count: int) -> None:
    smallest = SmallestAmounts(values, 9)
    for start in range(len(values) + 1):
        rest = sorted(values[start:])
        assert smallest.sum_of(start, count) == sum(rest[:count])
        assert smallest.least(start) == (rest[0] if rest else 0)


@given(amounts, st.integers(-3, 40), st.integers(0, 12))
def test_sorted_amounts_answer_alike(values: list[int], deficit: int, number: int) -> None:
    sorted_amounts = SortedAmounts(values)
    assert sorted_amounts.fewest(deficit) == (fewest(values, deficit) if deficit > 0 else 0)
    assert sorted_amounts.largest(number) == sum(sorted(values, reverse=True)[:number])
    assert sorted_amounts.total == sum(values)
