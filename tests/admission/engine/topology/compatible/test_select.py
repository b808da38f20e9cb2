"""The quick way of picking and the plain one give the same domains."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine.topology.compatible import select
from admission.engine.topology.compatible.pick import PickedDomain, PickOrder
from admission.engine.topology.compatible.select import CandidateSet, take, tightest
from tests.budgets import examples

numbers = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), min_size=1, max_size=40)


def field(rows: list[tuple[int, int]], *, same: bool) -> CandidateSet:
    slices = np.array([slices for slices, _ in rows], dtype=np.int64)
    pods = slices if same else slices * 2 + np.array([extra for _, extra in rows], dtype=np.int64)
    label = np.array(
        [(7 * index) % len(rows) if len(rows) % 7 else index for index in range(len(rows))], dtype=np.int64
    )
    return CandidateSet(np.arange(100, 100 + len(rows), dtype=np.int64), slices, pods, label)


def domains(some: CandidateSet) -> list[PickedDomain]:
    return [
        PickedDomain(*row)
        for row in zip(
            *(c.tolist() for c in (some.ids, some.label, some.pods, some.pods, some.slices, some.slices)), strict=True
        )
    ]


@pytest.fixture(params=[0, 512], ids=["histogram", "sorted"])
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select, "_SMALL", request.param)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("least", [False, True], ids=["best", "least"])
@pytest.mark.parametrize("same", [False, True], ids=["sliced", "plain"])
def test_take_is_minimize_over_the_sorted_domains(least: bool, same: bool) -> None:
    @settings(max_examples=examples(50), deadline=None)
    @given(numbers, st.integers(1, 60))
    def check(rows: list[tuple[int, int]], need: int) -> None:
        some = field(rows, same=same)
        profile = PickOrder(least=least, by_affinity=False)
        total = int(some.slices.sum())
        taken = take(some, need, least=least)
        if total < need:
            assert taken == total
            return
        assert not isinstance(taken, int)
        wanted = profile.minimize(profile.plain(domains(some)), need, 0, 1, slices=True)
        pairs = [(domain.id, domain.slice) for domain in wanted if domain.slice]
        got = zip(taken.ids.tolist(), taken.slices.tolist(), strict=True)
        assert [(slot, count) for slot, count in got if count] == pairs

    check()


@settings(max_examples=examples(50), deadline=None)
@given(numbers, st.integers(0, 8))
def test_tightest_is_the_first_of_the_smallest_that_hold_it(rows: list[tuple[int, int]], need: int) -> None:
    some = field(rows, same=False)
    found = tightest(some, need)
    profile = PickOrder(least=False, by_affinity=False)
    ordered = profile.plain(domains(some))
    if found is None:
        assert all(domain.slice < need for domain in ordered)
    else:
        assert int(some.ids[found]) == profile.tightest(ordered, need, 0, slices=True).id
