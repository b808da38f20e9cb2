"""The cohort tree: the arithmetic of lending and borrowing, edits in any order, and the way back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine.journal import Journal
from admission.engine.model import ClusterQueue, Cohort, FlavorQuotas, FlavorResource, Quota, ResourceGroup
from admission.engine.quota.tree import QuotaTree
from tests.admission.engine.quota.inspection import cohort_usage, cyclic_cohorts
from tests.budgets import examples

CPU: FlavorResource = ("f", "cpu")


def queue(name: str, quota: Quota | int, cohort: str | None = None) -> ClusterQueue:
    quota = quota if isinstance(quota, Quota) else Quota(quota)
    return ClusterQueue(name, (ResourceGroup(("cpu",), (FlavorQuotas("f", {"cpu": quota}),)),), cohort)


def cohort(name: str, parent: str | None = None, quota: Quota | None = None) -> Cohort:
    return Cohort(name, parent, {CPU: quota} if quota else {})


def tree(*specs: ClusterQueue | Cohort) -> QuotaTree:
    made = QuotaTree(Journal())
    for spec in specs:
        made.set_queue(spec) if isinstance(spec, ClusterQueue) else made.set_cohort(spec)
    return made


def test_a_queue_without_cohort_has_its_nominal_quota_and_no_more() -> None:
    quota = tree(queue("a", 10))
    quota.add("a", {CPU: 4})
    assert (quota.available("a", CPU), quota.potential("a", CPU)) == (6, 10)
    quota.add("a", {CPU: 9})
    assert quota.available("a", CPU) == 0, "over-use never shows as a negative amount"


@pytest.mark.parametrize(
    ("own", "other", "used", "available", "potential"),
    [
        pytest.param(Quota(10), Quota(10), (0, 0), 20, 20, id="all that the relatives do not use"),
        pytest.param(Quota(10), Quota(10), (0, 10), 10, 20, id="what the relatives use is gone"),
        pytest.param(Quota(10), Quota(10), (0, 15), 5, 20, id="what they borrowed from us is gone too"),
        pytest.param(Quota(10, borrowing_limit=3), Quota(10), (0, 0), 13, 13, id="up to the borrowing limit"),
        pytest.param(Quota(10, borrowing_limit=0), Quota(10), (4, 0), 6, 10, id="no borrowing at all"),
        pytest.param(Quota(10), Quota(10, lending_limit=4), (0, 0), 14, 14, id="only what is lent"),
        pytest.param(Quota(10), Quota(10, lending_limit=4), (0, 6), 14, 14, id="held-back part is theirs to use"),
        pytest.param(Quota(10), Quota(10, lending_limit=4), (0, 8), 12, 14, id="then the lent part shrinks"),
        pytest.param(Quota(10, lending_limit=0), Quota(10, lending_limit=0), (3, 0), 7, 10, id="nobody lends"),
    ],
)
def test_two_queues_of_a_cohort(
    own: Quota, other: Quota, used: tuple[int, int], available: int, potential: int
) -> None:
    quota = tree(queue("a", own, "team"), queue("b", other, "team"))
    quota.add("a", {CPU: used[0]})
    quota.add("b", {CPU: used[1]})
    assert (quota.available("a", CPU), quota.potential("a", CPU)) == (available, potential)


def test_cohorts_share_quota_of_their_own_through_all_levels() -> None:
    quota = tree(
        cohort("root", quota=Quota(5)),
        cohort("left", "root", Quota(2, lending_limit=1)),
        cohort("right", "root"),
        queue("a", 10, "left"),
        queue("b", 4, "right"),
    )
    assert quota.potential("a", CPU) == 10 + 2 + 5 + 4
    assert quota.potential("b", CPU) == 4 + 5 + 1, "left lends one of its twelve"
    quota.add("b", {CPU: 10})
    assert quota.available("a", CPU) == 11
    assert cohort_usage(quota, "root") == {CPU: 10}


@pytest.mark.parametrize(
    ("used", "amount", "level", "below_root"),
    [
        pytest.param(0, 10, 0, True, id="within nominal"),
        pytest.param(0, 11, 1, True, id="from the siblings"),
        pytest.param(8, 15, 2, False, id="from the cousins"),
        pytest.param(0, 99, 2, False, id="from nobody: counts as the root"),
    ],
)
def test_the_borrowing_level_is_the_height_of_the_cohort_that_covers_it(
    used: int, amount: int, level: int, below_root: bool
) -> None:
    quota = tree(cohort("left", "root"), queue("a", 10, "left"), queue("b", 10, "left"), queue("c", 10, "root"))
    quota.add("a", {CPU: used})
    borrowing = quota.borrowing("a", CPU, amount)
    assert (borrowing.level, borrowing.below_root) == (level, below_root)


def test_usage_survives_edits_and_may_come_before_its_queue() -> None:
    quota = tree()
    quota.add("a", {CPU: 7})
    quota.set_queue(queue("a", 10, "team"))
    quota.set_queue(queue("b", 10, "team"))
    assert quota.available("b", CPU) == 13
    quota.set_queue(queue("a", Quota(10, lending_limit=0), "team"))
    assert quota.available("b", CPU) == 10
    quota.set_queue(queue("a", 4, "other"))
    assert (quota.available("a", CPU), quota.available("b", CPU)) == (0, 10)
    quota.drop_queue("a")
    quota.remove("a", {CPU: 7})
    assert quota.audit() == []
    assert quota.state() == tree(queue("b", 10, "team")).state()


def test_cohorts_in_a_cycle_are_reported_with_all_below_them_and_recover() -> None:
    quota = tree(
        cohort("x", "y"), cohort("y", "z"), cohort("z", "x"), cohort("under", "y"),
        queue("a", 1, "x"), queue("b", 1, "under"), queue("c", 1, "elsewhere"),
    )  # fmt: skip
    assert [quota.cyclic(name) for name in "abc"] == [True, True, False]
    assert cyclic_cohorts(quota) == {"x", "y", "z"}
    quota.set_cohort(cohort("z"))
    assert [quota.cyclic(name) for name in "abc"] == [False, False, False]
    assert quota.potential("b", CPU) == 2
    assert quota.relatives("a") == {"a", "b"}
    assert quota.tree_of("a") == quota.tree_of("b") != quota.tree_of("c")


# ---- properties: the tree against the formulas of the specification, written down once more


class Formulas:
    """cycle.md 4.3 as recursive functions over the specs; nothing is kept."""

    def __init__(self, nodes: dict[str, tuple[str | None, Quota]], used: dict[str, int]) -> None:
        self.nodes, self.used = nodes, used

    def children(self, name: str) -> list[str]:
        return [child for child, (parent, _) in self.nodes.items() if parent == name]

    def subtree(self, name: str) -> int:
        lent = sum(self.subtree(child) - self.local(child) for child in self.children(name))
        return self.nodes[name][1].nominal + lent

    def local(self, name: str) -> int:
        limit = self.nodes[name][1].lending_limit
        return 0 if limit is None else max(0, self.subtree(name) - limit)

    def usage(self, name: str) -> int:
        if name in self.used:
            return self.used[name]
        return sum(max(0, self.usage(child) - self.local(child)) for child in self.children(name))

    def available(self, name: str) -> int:
        parent, quota = self.nodes[name]
        if parent is None:
            return self.subtree(name) - self.usage(name)
        above = self.available(parent)
        if quota.borrowing_limit is not None:
            stored = self.subtree(name) - self.local(name)
            in_parent = max(0, self.usage(name) - self.local(name))
            above = min(above, stored - in_parent + quota.borrowing_limit)
        return max(0, self.local(name) - self.usage(name)) + above

    def potential(self, name: str) -> int:
        parent, quota = self.nodes[name]
        if parent is None:
            return self.subtree(name)
        reach = self.local(name) + self.potential(parent)
        if quota.borrowing_limit is not None:
            reach = min(reach, self.subtree(name) + quota.borrowing_limit)
        return reach

    def height(self, name: str) -> int:
        return max((1 + self.height(child) for child in self.children(name)), default=0)

    def borrowing_level(self, name: str, amount: int) -> int:
        """The height of the lowest cohort whose quota covers what those below it do not."""
        parent, _ = self.nodes[name]
        if parent is None or self.subtree(name) >= self.usage(name) + amount:
            return 0
        at, left = name, amount
        while parent is not None:
            left -= max(0, self.local(at) - self.usage(at))
            at, parent = parent, self.nodes[parent][0]
            if self.subtree(at) >= self.usage(at) + left:
                break
        return self.height(at)


def cyclic_above(name: str, nodes: dict[str, tuple[str | None, Quota]]) -> bool:
    """Whether the cohort, or one above or below it, is its own ancestor."""
    return any(_circles(other, nodes) for other in nodes if name in (other, *_path(other, nodes)))


def _path(name: str, nodes: dict[str, tuple[str | None, Quota]]) -> list[str]:
    path: list[str] = []
    at = nodes[name][0]
    while at is not None and at not in path:
        path.append(at)
        at = nodes[at][0]
    return path


def _circles(name: str, nodes: dict[str, tuple[str | None, Quota]]) -> bool:
    return any(at in _path(at, nodes) for at in (name, *_path(name, nodes)))


limits = st.none() | st.integers(0, 12)
quotas = st.builds(Quota, st.integers(0, 12), limits, limits)
QUEUES = ("qa", "qb", "qc", "qd")
COHORTS = ("ca", "cb", "cc")
steps = st.one_of(
    st.tuples(st.just("queue"), st.sampled_from(QUEUES), quotas, st.none() | st.sampled_from(COHORTS)),
    st.tuples(st.just("cohort"), st.sampled_from(COHORTS), quotas, st.none() | st.sampled_from(COHORTS)),
    st.tuples(st.just("add"), st.sampled_from(QUEUES), st.integers(0, 9)),
    st.tuples(st.just("remove"), st.sampled_from(QUEUES), st.integers(0, 9)),
    st.tuples(st.just("drop queue"), st.sampled_from(QUEUES)),
    st.tuples(st.just("drop cohort"), st.sampled_from(COHORTS)),
)
Step = tuple[object, ...]


def play(quota: QuotaTree, step: Step) -> None:
    match step:
        case ("queue", str(name), Quota() as own, parent):
            quota.set_queue(replace(queue(name, own), cohort=parent if isinstance(parent, str) else None))
        case ("cohort", str(name), Quota() as own, parent):
            quota.set_cohort(cohort(name, parent if isinstance(parent, str) else None, own))
        case ("add", str(name), int(amount)):
            quota.add(name, {CPU: amount})
        case ("remove", str(name), int(amount)):
            quota.remove(name, {CPU: min(amount, quota.usage(name).get(CPU, 0))})
        case ("drop queue", str(name)):
            quota.drop_queue(name)
        case ("drop cohort", str(name)):
            quota.drop_cohort(name)


def declared(history: list[Step]) -> dict[str, tuple[str | None, Quota]]:
    nodes: dict[str, tuple[str | None, Quota]] = {}
    for step in history:
        match step:
            case ("queue" | "cohort", str(name), Quota() as own, parent):
                nodes[name] = (parent if isinstance(parent, str) else None, own)
            case ("drop queue" | "drop cohort", str(name)):
                nodes.pop(name, None)
    for parent, _ in list(nodes.values()):
        if parent is not None:
            nodes.setdefault(parent, (None, Quota(0)))
    return nodes


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(steps, max_size=25))
def test_any_history_agrees_with_the_formulas(history: list[Step]) -> None:
    quota = tree()
    for step in history:
        play(quota, step)
    assert quota.audit() == []
    nodes = declared(history)
    formulas = Formulas(nodes, {name: quota.usage(name).get(CPU, 0) for name in QUEUES})
    for name in set(QUEUES) & set(nodes):
        if not quota.cyclic(name):
            assert quota.available(name, CPU) == max(0, formulas.available(name))
            assert quota.potential(name, CPU) == formulas.potential(name)
            for amount in (1, 5):
                assert quota.borrowing(name, CPU, amount).level == formulas.borrowing_level(name, amount)
    for name in set(COHORTS) & set(nodes):
        if not cyclic_above(name, nodes):
            assert cohort_usage(quota, name).get(CPU, 0) == formulas.usage(name)


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(steps, max_size=15), st.lists(steps, max_size=15))
def test_rollback_leaves_every_node_as_it_was(before: list[Step], trial: list[Step]) -> None:
    journal = Journal()
    quota = QuotaTree(journal)
    for step in before:
        play(quota, step)
    state = quota.state()
    with journal.trial():
        for step in trial:
            play(quota, step)
    assert quota.state() == state
    assert quota.audit() == []
