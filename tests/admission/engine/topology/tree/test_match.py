"""Taints, tolerations, selectors and affinity: which nodes may be used, and what a failure says of the others."""

from __future__ import annotations

import numpy as np
import pytest

from admission.engine.model import Node, NodeSelectorRequirement, NodeSelectorTerm, PreferredTerm, Taint, Toleration
from admission.engine.topology.tree.match import Matcher, Wants, taint_text, tolerates

NO = "NoSchedule"


@pytest.mark.parametrize(
    ("toleration", "taint", "wanted"),
    [
        (Toleration(operator="Exists"), Taint(key="a", effect=NO), True),
        (Toleration(key="a", operator="Exists"), Taint(key="a", effect=NO, value="x"), True),
        (Toleration(key="b", operator="Exists"), Taint(key="a", effect=NO), False),
        (Toleration(key="a", value="x"), Taint(key="a", effect=NO, value="x"), True),
        (Toleration(key="a", operator="Equal", value="y"), Taint(key="a", effect=NO, value="x"), False),
        (Toleration(value="x"), Taint(key="a", effect=NO, value="x"), True),
        (Toleration(key="a", operator="Exists", effect="NoExecute"), Taint(key="a", effect=NO), False),
        (Toleration(key="a", operator="Lt", value="60"), Taint(key="a", effect=NO, value="50"), True),
        (Toleration(key="a", operator="Gt", value="60"), Taint(key="a", effect=NO, value="50"), False),
        (Toleration(key="a", operator="Gt", value="-1"), Taint(key="a", effect=NO, value="0"), True),
        (Toleration(key="a", operator="Gt", value="1"), Taint(key="a", effect=NO, value="05"), False),
        (Toleration(key="a", operator="Gt", value="1"), Taint(key="a", effect=NO, value=str(2**63)), False),
        (Toleration(key="a", operator="Matches"), Taint(key="a", effect=NO), False),
    ],
)
def test_tolerations(toleration: Toleration, taint: Taint, wanted: bool) -> None:
    assert tolerates(toleration, taint) is wanted


def test_taints_in_messages() -> None:
    assert taint_text(Taint(key="k", value="v", effect=NO)) == "k=v:NoSchedule"
    assert taint_text(Taint(key="k", effect="NoExecute")) == "k:NoExecute"


NODES = [
    Node("n0", {"pool": "a", "gen": "3"}, {}),
    Node("n1", {"pool": "b", "gen": "x"}, {}),
    Node("n2", {"gen": "+7"}, {}),
    Node("n3", {"pool": "", "gen": str(2**63)}, {}),
]


@pytest.fixture
def matcher() -> Matcher:
    made = Matcher()
    for row, node in enumerate(NODES):
        made.set(row, node)
    return made


def affinity(*requirements: NodeSelectorRequirement, fields: tuple[NodeSelectorRequirement, ...] = ()) -> Wants:
    return Wants(affinity=(NodeSelectorTerm(match_expressions=requirements, match_fields=fields),))


def expression(key: str, operator: str, *values: str) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(key=key, operator=operator, values=values)


@pytest.mark.parametrize(
    ("wants", "rows"),
    [
        (Wants(selector=(("pool", "a"),)), [0]),
        (Wants(selector=(("pool", ""),)), [3]),
        (Wants(selector=(("pool", "a"), ("gen", "x"))), []),
        (Wants(affinity=()), []),
        (affinity(), []),
        (affinity(expression("pool", "In", "a", "b", "c")), [0, 1]),
        (affinity(expression("pool", "NotIn", "a")), [1, 2, 3]),
        (affinity(expression("pool", "Exists")), [0, 1, 3]),
        (affinity(expression("pool", "DoesNotExist")), [2]),
        (affinity(expression("gen", "Gt", "2")), [0, 2]),
        (affinity(expression("gen", "Lt", "7")), [0]),
        (affinity(expression("gen", "Gt", "z")), []),
        (affinity(expression("gen", "Gt", "1", "2")), []),
        (affinity(expression("gen", "Like", "1")), []),
        (affinity(expression("pool", "Exists"), expression("gen", "In", "x")), [1]),
        (affinity(fields=(expression("metadata.name", "In", "n2"),)), [2]),
        (affinity(fields=(expression("metadata.name", "NotIn", "n2"),)), [0, 1, 3]),
        (affinity(fields=(expression("metadata.uid", "In", "n2"),)), []),
    ],
    ids=lambda value: str(value)[:80],
)
def test_selectors_and_affinity(matcher: Matcher, wants: Wants, rows: list[int]) -> None:
    mask = matcher.feasible(wants, len(NODES))
    assert mask is not None
    assert np.flatnonzero(mask).tolist() == rows


def test_terms_are_ored(matcher: Matcher) -> None:
    terms = tuple(NodeSelectorTerm(match_expressions=(expression("pool", "In", value),)) for value in "ab")
    mask = matcher.feasible(Wants(affinity=terms), len(NODES))
    assert mask is not None
    assert mask.tolist() == [True, True, False, False]


def test_preferred_terms_add_their_weights(matcher: Matcher) -> None:
    preferred = tuple(
        PreferredTerm(weight=weight, preference=NodeSelectorTerm(match_expressions=(expression(key, "Exists"),)))
        for key, weight in (("pool", 10), ("gen", 1))
    )
    assert matcher.scores(Wants(preferred=preferred), len(NODES)).tolist() == [11, 11, 1, 11]


def test_nothing_is_computed_without_selectors_and_taints(matcher: Matcher) -> None:
    assert matcher.feasible(Wants(), len(NODES)) is None


def test_a_node_that_changes_is_matched_as_it_is_now(matcher: Matcher) -> None:
    wants = Wants(selector=(("pool", "a"),))
    assert matcher.feasible(wants, 4) is not None
    matcher.set(0, None)
    matcher.set(2, Node("n2", {"pool": "a"}, {}, taints=(Taint(key="k", effect=NO),)))
    mask = matcher.feasible(wants, 4)
    assert mask is not None
    assert not mask.any()
    matcher.set(2, Node("n2", {"pool": "a"}, {}))
    mask = matcher.feasible(wants, 4)
    assert mask is not None
    assert mask.tolist() == [False, False, True, False]


def test_each_excluded_node_counts_at_its_first_test() -> None:
    matcher = Matcher()
    soft = Taint(key="soft", effect="PreferNoSchedule")
    hard, other = Taint(key="hard", effect=NO, value="1"), Taint(key="other", effect="NoExecute")
    taints = [(), (soft,), (hard, other), (other, hard), (soft, hard)]
    for row, some in enumerate(taints):
        matcher.set(row, Node(f"n{row}", {"pool": "a" if row else "b"}, {}, taints=some))
    wants = Wants(
        tolerations=(Toleration(key="other", operator="Exists"),),
        selector=(("pool", "a"),),
        affinity=(NodeSelectorTerm(match_expressions=(expression("gen", "Exists"),)),),
    )
    excluded = matcher.excluded(wants, 5, np.ones(5, dtype=np.bool_))
    assert (dict(excluded.taints), excluded.selector, excluded.affinity) == ({"hard=1:NoSchedule": 3}, 1, 1)


def test_of_very_many_taints_those_that_exclude_most_nodes_are_told() -> None:
    matcher = Matcher()
    for row in range(100):
        key = "many" if row < 3 else f"team-{row:03}"
        matcher.set(row, Node(f"n{row}", {}, {}, taints=(Taint(key=key, effect=NO),)))
    alive = np.ones(100, dtype=np.bool_)
    excluded = matcher.excluded(Wants(), 100, alive)
    assert dict(excluded.taints) == {"many:NoSchedule": 3, **{f"team-{row:03}:NoSchedule": 1 for row in range(3, 18)}}
    assert (excluded.more_taints, excluded.beyond) == (82, 82)
    anything = Wants((Toleration(operator="Exists"),))
    assert not matcher.excluded(anything, 100, alive).taints


def test_a_taint_that_comes_after_a_look_counts() -> None:
    matcher, alive = Matcher(), np.ones(2, dtype=np.bool_)
    for row in range(2):
        matcher.set(row, Node(f"n{row}", {}, {}, taints=(Taint(key="old", effect=NO),)))
    assert dict(matcher.excluded(Wants(), 2, alive).taints) == {"old:NoSchedule": 2}
    matcher.set(1, Node("n1", {}, {}, taints=(Taint(key="new", effect=NO),)))
    assert dict(matcher.excluded(Wants(), 2, alive).taints) == {"old:NoSchedule": 1, "new:NoSchedule": 1}
    mask = matcher.feasible(Wants((Toleration(key="new", operator="Exists"),)), 2)
    assert mask is not None
    assert mask.tolist() == [False, True]
