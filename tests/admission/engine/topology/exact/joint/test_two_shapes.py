"""Two shapes on the same rows: the list beside a search for each number."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine.topology.exact.joint.limits import LimitRow, PackingItem
from admission.engine.topology.exact.joint.packing import NodeBudget, NoPacking, pack
from admission.engine.topology.exact.joint.two_shapes import beside
from tests.budgets import examples

vectors = st.tuples(st.integers(0, 2), st.integers(1, 3))
spots = st.lists(
    st.tuples(st.tuples(st.integers(0, 4), st.integers(0, 7)), st.booleans(), st.booleans()), min_size=1, max_size=4
)


@settings(max_examples=examples(60), deadline=None)
@given(spots, vectors, vectors)
def test_the_most_that_a_search_finds(
    hosts: list[tuple[tuple[int, int], bool, bool]], first: tuple[int, int], second: tuple[int, int]
) -> None:
    rows = [LimitRow(free, (index,), (one, other)) for index, (free, one, other) in enumerate(hosts)]

    def fits(some: int, others: int) -> bool:
        return not isinstance(
            pack(rows, [PackingItem(first, some), PackingItem(second, others)], NodeBudget(100_000)), NoPacking
        )

    most = beside(hosts, first, second)
    for some, others in enumerate(most):
        assert fits(some, others)
        assert not fits(some, others + 1)
    assert not fits(len(most), 0)
