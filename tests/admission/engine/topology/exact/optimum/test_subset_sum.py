"""The choice by capacities alone, beside trying every choice."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine.topology.exact.optimum.subset_sum import CapacityCounts, SubsetSum, fewest
from tests.budgets import examples


def capacities(sizes: list[int]) -> CapacityCounts:
    """Sizes by how many there are."""
    counts = Counter(sizes)
    return CapacityCounts(sorted(counts, reverse=True), [counts[size] for size in sorted(counts, reverse=True)])


def tried(sizes: list[int], need: int) -> tuple[int, int, tuple[int, ...]] | None:
    """Fewest, then least stranded, then the smallest large ones."""
    ordered = sorted(sizes, reverse=True)
    for k in range(1, len(ordered) + 1):
        holding = [some for some in combinations(ordered, k) if sum(some) >= need]
        if holding:
            return min((k, sum(some) - need, some) for some in holding)
    return None


@settings(max_examples=examples(120), deadline=None)
@given(st.lists(st.integers(1, 6) | st.integers(1, 40), min_size=1, max_size=9), st.data())
def test_equal_to_trying_every_choice(sizes: list[int], data: st.DataObject) -> None:
    need = data.draw(st.integers(1, sum(sizes) + 1))
    some = capacities(sizes)
    top = fewest(some, need)
    if top is None:
        assert need > sum(sizes)
        return
    solved = SubsetSum(some, top).solve()
    assert solved is not None
    stranded, chosen = solved
    taken = tuple(size for size in sorted(chosen, reverse=True) for _ in range(chosen[size]))
    assert (top.k, stranded, taken) == tried(sizes, need)


def test_capacities_by_the_thousand_are_left_alone() -> None:
    some = capacities([1_000_000 + 7 * index for index in range(2000)] * 3)
    top = fewest(some, 3_000_000_000)
    assert top is not None
    assert SubsetSum(some, top).solve() is None
