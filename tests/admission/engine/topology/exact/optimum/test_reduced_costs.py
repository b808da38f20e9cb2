"""What is left when prices have decided the rest, beside trying every set of domains; and what stays cheap on a large tree."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from admission.engine.decision import Proof
from admission.engine.topology.exact.optimum.objective import Problem
from admission.engine.topology.exact.optimum.solver import solve
from tests.budgets import examples

trees = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=6), min_size=2, max_size=5)


def problem(tree: list[list[int]], need: int, below: int = 0) -> Problem:
    """Parents and the capacities of their domains; with `below`, each slice is a domain of its own that holds so many."""
    sizes = [size for some in tree for size in some]
    home = [index for index, some in enumerate(tree) for _ in some]
    capacity = [np.array([sum(some) for some in tree]), np.array(sizes)]
    parent = [np.zeros(len(tree), dtype=np.int64), np.array(home)]
    if below:
        capacity = [below * some for some in capacity] + [np.full(sum(sizes), below)]
        parent.append(np.repeat(np.arange(len(sizes)), sizes))
    return Problem(capacity, parent, [np.arange(len(some)) for some in capacity], 1, need)


def tried(requested: Problem) -> tuple[int, ...]:
    """The least figures of all sets of domains; the first size that holds the need is the best."""
    able = np.flatnonzero(requested.capacity[1]).tolist()
    for size in range(1, len(able) + 1):
        sets = [
            some for some in combinations(able, size) if int(requested.capacity[1][list(some)].sum()) >= requested.need
        ]
        if sets:
            return min(requested.figures(np.array(some)) for some in sets)
    raise AssertionError("there is no room")


@settings(max_examples=examples(25), deadline=None)
@given(trees, st.data())
def test_equal_to_trying_every_set(tree: list[list[int]], data: st.DataObject) -> None:
    sizes = [size for some in tree for size in some]
    assume(sum(map(bool, sizes)) <= 10 and max(sizes) < sum(sizes))
    requested = problem(tree, data.draw(st.integers(max(sizes) + 1, sum(sizes))))
    best = solve(requested, 20_000)
    assert best.certificate.proof is Proof.OPTIMAL
    assert best.certificate.cost == requested.figures(best.slots) == tried(requested)


@pytest.mark.parametrize(
    ("tree", "need", "figures"),
    [
        pytest.param([[5, 5, 5, 5]] * 200 + [[3]], 18, (4, 1, 2, 18, 0, 5, 4), id="equal parents, and one that tempts"),
        pytest.param(
            [[7, 5], [6, 6], [7, 6]] * 100, 25, (4, 2, 0, 25, 0, 7, 1, 6, 3), id="an exact sum in two parents"
        ),
        pytest.param([[4, 4, 1], [5, 2, 2]] * 100, 9, (2, 2, 0, 9, 0, 5, 1, 4, 1), id="no parent has both"),
    ],
)
def test_proved_on_a_large_tree_with_few_states(tree: list[list[int]], need: int, figures: tuple[int, ...]) -> None:
    small = problem(tree, need, below=1)
    best = solve(small, 20_000)
    assert best.certificate.proof is Proof.OPTIMAL
    assert best.certificate.cost == figures
    assert best.certificate.expanded < 5_000


def test_a_parent_that_cannot_be_in_an_answer_is_not_chosen() -> None:
    """Three whole domains and the half one would strand least, but not in one parent: nothing has to be searched for that."""
    whole = problem([[16] * 8] * 100 + [[16, 8]], 52, below=1)
    best = solve(whole, 0)
    assert best.certificate.proof is Proof.OPTIMAL
    assert best.certificate.cost == (4, 1, 12, 52, 0, 16, 4)
    assert best.certificate.expanded == 0
