"""Ranks and placement: each pod once, valid JSON, the same whatever the order, and an assignment goes over to its successor."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.controllers.sakkara.output_ranks import (
    Path,
    PlacedPod,
    RankAssignment,
    by_distance,
    distance,
    master_of,
    placement_text,
    rank_assignments,
    rank_text,
    read_assignments,
    read_placement,
)


def at(pod: str, *path: str) -> PlacedPod:
    return PlacedPod(pod, path)


def ranks(assignments: Sequence[RankAssignment]) -> list[tuple[str, int]]:
    return [(assignment.pod, assignment.rank) for assignment in assignments]


@st.composite
def groups(draw: st.DrawFn, least: int = 1) -> list[PlacedPod]:
    """Placed pods of one tree of any depth."""
    depth = draw(st.integers(1, 4))
    path = st.lists(st.sampled_from(["a", "b", "c"]), min_size=depth, max_size=depth).map(tuple)
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=least, max_size=12))
    return [PlacedPod(name, draw(path)) for name in names]


NAMES = [f"{role}-{n}" for role in ("w", "master", "z") for n in range(8)]


# ---- ranks


@pytest.mark.parametrize(
    ("pods", "master"),
    [
        pytest.param(["w-1", "w-0"], "w-0", id="none says so: the first by name"),
        pytest.param(["a-0", "job-master-0", "b"], "job-master-0", id="the one with master in its name"),
        pytest.param(["x-master-1", "x-master-0", "a"], "x-master-0", id="of two masters the first by name"),
    ],
)
def test_who_is_master(pods: list[str], master: str) -> None:
    assert master_of(pods) == master
    assert master_of(reversed(pods)) == master


@pytest.mark.parametrize(
    ("first", "second", "edges"),
    [
        (("r0", "n0"), ("r0", "n0"), 2),
        (("r0", "n0"), ("r0", "n1"), 4),
        (("r0", "n0"), ("r1", "n0"), 6),
        (("n0",), ("n1",), 4),
    ],
)
def test_distance_counts_edges_between_the_pods(first: Path, second: Path, edges: int) -> None:
    assert distance(first, second) == distance(second, first) == edges


def test_ranks_grow_with_the_distance_from_the_master_then_by_path_then_by_name() -> None:
    pods = [
        at("a-far", "r0", "n0"),
        at("b-rack", "r1", "n1"),
        at("z-same", "r1", "n2"),
        at("a-same", "r1", "n2"),
        at("master", "r1", "n2"),
        at("c-rack", "r1", "n0"),
        at("b-far", "r2", "n9"),
    ]
    wanted = ["master", "a-same", "z-same", "c-rack", "b-rack", "a-far", "b-far"]
    assert ranks(rank_assignments((), pods, 7)) == [(name, rank) for rank, name in enumerate(wanted)]


def test_no_rank_before_all_are_placed() -> None:
    known = [at("p-0", "r0", "n0"), at("p-1", "r0", "n1")]
    assert rank_assignments((), known, 3) == ()
    assert rank_assignments((), [*known, at("p-2")], 3) == ()
    assert rank_assignments((), [*known, at("p-2", "r0", "")], 3) == ()
    assert len(rank_assignments((), [*known, at("p-2", "r0", "n0")], 3)) == 3


@given(groups(), st.randoms())
def test_ranks_are_a_permutation_ordered_by_distance_and_do_not_depend_on_the_order(
    pods: list[PlacedPod], dice: Any
) -> None:
    assignments = rank_assignments((), pods, len(pods))
    assert sorted(assignment.rank for assignment in assignments) == list(range(len(pods)))
    assert {assignment.pod for assignment in assignments} == {pod.pod for pod in pods}
    by_name = {pod.pod: pod.path for pod in pods}
    first = assignments[0]
    assert first.pod == master_of(by_name)
    far = [distance(first.path, assignment.path) for assignment in assignments[1:]]
    assert far == sorted(far)
    shuffled = list(pods)
    dice.shuffle(shuffled)
    assert rank_assignments((), shuffled, len(pods)) == assignments


@given(groups())
def test_ranking_the_ranked_again_changes_nothing(pods: list[PlacedPod]) -> None:
    assignments = rank_assignments((), pods, len(pods))
    assert rank_assignments(assignments, pods, len(pods)) == assignments
    assert rank_assignments(assignments, [], len(pods)) == assignments, "an assignment is kept for the pod's successor"


# ---- successors


@given(groups(least=2), st.data())
def test_successors_sent_to_the_same_domains_take_the_same_ranks(pods: list[PlacedPod], data: st.DataObject) -> None:
    assignments = rank_assignments((), pods, len(pods))
    gone = data.draw(st.sets(st.sampled_from(sorted(pod.pod for pod in pods)), min_size=1))
    left = [pod for pod in pods if pod.pod not in gone]
    heirs = [PlacedPod(f"heir-{n}", pod.path) for n, pod in enumerate(pod for pod in pods if pod.pod in gone)]
    after = rank_assignments(assignments, data.draw(st.permutations([*left, *heirs])), len(pods))
    assert [assignment.rank for assignment in after] == list(range(len(pods)))
    assert [(assignment.path, assignment.rank) for assignment in after] == [
        (assignment.path, assignment.rank) for assignment in assignments
    ]
    stayed = {pod.pod for pod in left}
    assert [assignment for assignment in after if assignment.pod in stayed] == [
        assignment for assignment in assignments if assignment.pod in stayed
    ]
    assert {assignment.pod for assignment in after} == stayed | {heir.pod for heir in heirs}
    assert sum(assignment.taken for assignment in after) == len(heirs)


@given(groups(least=2), st.data())
def test_successors_that_come_one_by_one_end_up_where_they_would_together(
    pods: list[PlacedPod], data: st.DataObject
) -> None:
    """A process that is killed between two of them reads its own text back and goes on."""
    assignments = rank_assignments((), pods, len(pods))
    gone = data.draw(st.lists(st.sampled_from(pods), min_size=1, unique_by=lambda pod: pod.pod))
    here = [pod for pod in pods if pod not in gone]
    for n, pod in enumerate(gone):
        here.append(PlacedPod(f"heir-{n}", pod.path))
        assignments = rank_assignments(assignments, here, len(pods))
        taken = {assignment.rank: assignment.taken for assignment in assignments}
        paths = {assignment.pod: assignment.path for assignment in assignments}
        assert read_assignments(rank_text(assignments), placement_text(paths), taken) == assignments
    assert [assignment.rank for assignment in assignments] == list(range(len(pods)))
    assert {assignment.pod for assignment in assignments} == {pod.pod for pod in here}


def test_a_successor_on_another_node_takes_the_nearest_free_rank() -> None:
    pods = [at("p-0", "r0", "n0"), at("p-1", "r0", "n1"), at("p-2", "r1", "n2"), at("p-3", "r1", "n3")]
    assignments = rank_assignments((), pods, 4)
    assert ranks(assignments) == [("p-0", 0), ("p-1", 1), ("p-2", 2), ("p-3", 3)]
    after = rank_assignments(assignments, [pods[0], pods[2], at("x", "r1", "n9"), at("y", "r0", "n0")], 4)
    assert ranks(after) == [("p-0", 0), ("y", 1), ("p-2", 2), ("x", 3)]
    assert after[3].path == ("r1", "n9")


def test_a_pod_that_is_sent_but_whose_node_is_not_known_waits_for_its_rank() -> None:
    pods = [at("p-0", "r0", "n0"), at("p-1", "r0", "n1")]
    assignments = rank_assignments((), pods, 2)
    assert rank_assignments(assignments, [pods[0], at("x", "r0", "")], 2) == assignments


def test_more_pods_than_there_were_get_the_next_ranks() -> None:
    pods = [at("p-0", "r0", "n0"), at("p-1", "r0", "n1")]
    assignments = rank_assignments((), pods, 2)
    after = rank_assignments(assignments, [*pods, at("z", "r1", "n2"), at("y", "r0", "n0")], 2)
    assert ranks(after) == [("p-0", 0), ("p-1", 1), ("y", 2), ("z", 3)]


# ---- as text


@given(groups(), st.randoms())
def test_the_placement_is_json_that_names_each_pod_once_whatever_the_order(pods: list[PlacedPod], dice: Any) -> None:
    paths = {pod.pod: pod.path for pod in pods}
    text = placement_text(paths)
    assert list(json.loads(text)) == ["root"]
    assert dict(read_placement(text)) == paths
    assert len(list(read_placement(text))) == len(pods)
    shuffled = list(paths.items())
    dice.shuffle(shuffled)
    assert placement_text(dict(shuffled)) == text


@given(st.dictionaries(st.sampled_from(NAMES), st.lists(st.sampled_from(["a", "b", ""]), max_size=3).map(tuple)))
def test_trees_whose_nodes_bear_the_names_of_domains_still_name_each_pod_once(paths: dict[str, Path]) -> None:
    found = [pod for pod, _ in read_placement(placement_text(paths))]
    assert sorted(found) == sorted(pod for pod, path in paths.items() if path)


def test_the_forms_of_the_texts() -> None:
    paths = {"pod-4": ("rack-0", "node-0"), "pod-0": ("rack-0", "node-0"), "pod-1": ()}
    assert placement_text(paths) == '{"root": {"rack-0": {"node-0": ["pod-0", "pod-4"]}}}'
    assert rank_text([RankAssignment(0, "pod-0", ()), RankAssignment(1, "pod-4", ())]) == '[["pod-0", 0], ["pod-4", 1]]'
    assert placement_text({"p": ("rack-0", "")}) == '{"root": {"rack-0": {"": ["p"]}}}'


@pytest.mark.parametrize(
    "rank",
    [None, "", "{", "7", '["a"]', '[["a", "x"]]', '[["a", 0], ["a", 1]]', '[["a", 0], ["b", 0]]', '{"a": 1}'],
)
def test_unreadable_ranks_count_as_none(rank: str | None) -> None:
    assert read_assignments(rank, '{"root": {}}', {}) == ()


@pytest.mark.parametrize("placement", [None, "", "{", "[]", '{"root": 3}', '{"top": {"n": ["a"]}}', "null"])
def test_an_unreadable_placement_gives_no_path(placement: str | None) -> None:
    assert list(read_placement(placement)) == []
    assert read_assignments('[["a", 0]]', placement, {}) == (RankAssignment(0, "a", ()),)


@given(groups(), st.sampled_from(NAMES))
def test_by_distance_keeps_all(pods: list[PlacedPod], name: str) -> None:
    master = PlacedPod(name, pods[0].path)
    assert sorted(by_distance(pods, master), key=lambda p: p.pod) == sorted(pods, key=lambda p: p.pod)
