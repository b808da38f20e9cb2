"""The properties of test_choice.py on many more scenes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.engine.model import Profile
from admission.engine.quota.fairness import FairStrategy
from tests.admission.engine.preemption import test_choice as quick
from tests.admission.engine.preemption.drawn_clusters import DrawnCluster, scenes

pytestmark = pytest.mark.long


def inner(test: Any) -> Callable[..., None]:
    """The test without its own examples."""
    found: Callable[..., None] = test.hypothesis.inner_test
    return found


@quick.few(1500)
@given(scenes())
def test_no_set_costs_less(scene: DrawnCluster) -> None:
    inner(quick.test_no_set_costs_less)(scene)


@quick.few(1500)
@given(scenes())
def test_the_cheapest_victims(scene: DrawnCluster) -> None:
    inner(quick.test_the_cheapest_victims_suffice_and_cost_no_more_than_kueues)(scene)


@quick.few(1500)
@given(scenes(), st.integers(0, 30))
def test_a_small_budget(scene: DrawnCluster, budget: int) -> None:
    inner(quick.test_a_small_budget_is_reported_and_its_bound_holds)(scene, budget)


@quick.few(1500)
@given(scenes(profile=Profile.COMPATIBLE))
def test_kueues_victims(scene: DrawnCluster) -> None:
    inner(quick.test_kueues_victims_free_enough_and_the_search_leaves_no_trace)(scene)


@quick.few(1500)
@given(scenes(profile=Profile.COMPATIBLE), st.sampled_from([*((one,) for one in FairStrategy), tuple(FairStrategy)]))
def test_fair_victims(scene: DrawnCluster, strategies: tuple[FairStrategy, ...]) -> None:
    inner(quick.test_fair_victims_free_capacity_and_the_search_changes_nothing)(scene, strategies)
