"""Dominant resource shares: who borrows how much of what there is to lend, by weight, and whom that lets evict."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.engine.journal import Journal
from admission.engine.model import ClusterQueue, Cohort, Quota
from admission.engine.quota.cohorts import QuotaNode
from admission.engine.quota.fairness import (
    NO_SHARE,
    UNBOUNDED,
    FairStrategy,
    Share,
    ShareCache,
    dominant_share,
    lendable,
)
from admission.engine.quota.tree import QuotaTree
from tests.admission.engine.builders import group

CPU, GPU = ("f", "cpu"), ("f", "gpu")


def tree(*nodes: ClusterQueue | Cohort, usage: Mapping[str, Mapping[tuple[str, str], int]] | None = None) -> QuotaTree:
    made = QuotaTree(Journal())
    for node in nodes:
        made.set_cohort(node) if isinstance(node, Cohort) else made.set_queue(node)
    for name, used in (usage or {}).items():
        made.add(name, used)
    return made


def queue(
    name: str, cpu: int | Quota, gpu: int | Quota = 0, *, weight: int = 1000, cohort: str | None = "all"
) -> ClusterQueue:
    return ClusterQueue(name, (group({"f": {"cpu": cpu, "gpu": gpu}}),), cohort, weight_milli=weight)


def node(quota_tree: QuotaTree, name: str) -> QuotaNode:
    found = quota_tree.node(name)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("queues", "used", "value", "resource", "status"),
    [
        pytest.param([queue("a", 4), queue("b", 6)], {CPU: 4}, 0, "", 0, id="within its own"),
        pytest.param([queue("a", 4), queue("b", 6)], {CPU: 7}, 300, "cpu", 300, id="three of ten"),
        pytest.param([queue("a", 4, weight=3000), queue("b", 6)], {CPU: 7}, 100, "cpu", 100, id="weight 3"),
        pytest.param([queue("a", 4, weight=500), queue("b", 6)], {CPU: 7}, 600, "cpu", 600, id="half a weight"),
        pytest.param([queue("a", 1), queue("b", 2)], {CPU: 2}, Fraction(1000, 3), "cpu", 334, id="rounded up for show"),
        pytest.param([queue("a", 0, 0), queue("b", 10, 4)], {CPU: 5, GPU: 1}, 500, "cpu", 500, id="the larger counts"),
        pytest.param(
            [queue("a", 0, 0), queue("b", 10, 10)], {GPU: 2, CPU: 2}, 200, "cpu", 200, id="equal: first by name"
        ),
        pytest.param([queue("a", 4, cohort=None)], {CPU: 7}, 0, "", 0, id="nobody to borrow from"),
        pytest.param([queue("a", 4, weight=0), queue("b", 6)], {CPU: 4}, 0, "", 0, id="weight 0, within its own"),
        pytest.param(
            [queue("a", 0), queue("b", Quota(6, lending_limit=2))],
            {CPU: 1},
            500,
            "cpu",
            500,
            id="only what is lent counts",
        ),
        pytest.param(
            [queue("a", 0), queue("b", Quota(6, lending_limit=0))], {CPU: 1}, 0, "", 0, id="nothing can be lent"
        ),
    ],
)
def test_share(
    queues: list[ClusterQueue], used: Mapping[tuple[str, str], int], value: int | Fraction, resource: str, status: int
) -> None:
    share = dominant_share(node(tree(*queues, usage={"a": used}), "a"))
    assert (share.value, share.resource, share.status) == (value, resource, status)


def test_a_borrower_without_a_weight_has_the_largest_share() -> None:
    used = {"a": {CPU: 1}, "b": {CPU: 9}, "c": {CPU: 2}}
    made = tree(queue("a", 0, weight=0), queue("b", 4), queue("c", 0, weight=0), queue("d", 20), usage=used)
    a, b, c = (dominant_share(node(made, name)) for name in "abc")
    assert b < a < c
    assert a.status == UNBOUNDED


def test_extra_counts_as_if_it_were_used() -> None:
    made = tree(queue("a", 4), queue("b", 6), usage={"a": {CPU: 3}})
    assert dominant_share(node(made, "a"), {CPU: 4}).value == 300
    assert dominant_share(node(made, "a")) == NO_SHARE


def test_a_cohort_has_a_share_of_its_parent() -> None:
    made = tree(
        Cohort("low", parent="all", weight_milli=2000),
        queue("a", 2, cohort="low"),
        queue("b", 8),
        usage={"a": {CPU: 6}},
    )
    low = node(made, "a").parent
    assert low is not None
    assert low.parent is not None
    assert dominant_share(low).value == 200
    assert lendable(low.parent) == {"cpu": 10}


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([CPU, GPU]), st.integers(0, 9)), max_size=8))
def test_incremental_shares_equal_recomputed_shares(steps: list[tuple[str, tuple[str, str], int]]) -> None:
    made = tree(
        Cohort("low", parent="all"),
        queue("a", 2, 1, cohort="low"),
        queue("b", Quota(3, lending_limit=1), 2, cohort="low", weight=500),
        queue("c", 9, 9),
    )
    kept = ShareCache()
    for name, fr, amount in steps:
        made.add(name, {fr: amount})
        kept.changed(node(made, name))
        for one in "abc":
            path = (node(made, one), *node(made, one).ancestors())
            assert [kept.of(each) for each in path] == [dominant_share(each) for each in path]


SMALL, LARGE = Share(value=Fraction(100)), Share(value=Fraction(300))


@pytest.mark.parametrize(
    ("preemptor", "before", "after", "final", "initial"),
    [
        pytest.param(SMALL, LARGE, LARGE, True, True, id="still less than the target afterwards"),
        pytest.param(SMALL, LARGE, SMALL, True, True, id="equal afterwards"),
        pytest.param(LARGE, LARGE, SMALL, False, False, id="would turn the tables"),
        pytest.param(SMALL, LARGE, NO_SHARE, False, True, id="less than the target had, more than it keeps"),
        pytest.param(SMALL, SMALL, SMALL, True, False, id="nothing gained, nothing lost"),
    ],
)
def test_strategies(preemptor: Share, before: Share, after: Share, final: bool, initial: bool) -> None:
    assert FairStrategy.FINAL_SHARE.allows(preemptor, before, after) is final
    assert FairStrategy.INITIAL_SHARE.allows(preemptor, before, after) is initial
