"""Which gated pod goes to which domain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from api.meta import parse_time
from api.names import (
    ELASTIC_GATE,
    ELASTIC_JOB,
    HOSTNAME_LABEL,
    JOB_COMPLETION_INDEX,
    SAKKARA_GROUP_ANNOTATION,
    SAKKARA_RANK,
    TOPOLOGY_PODSET,
)
from api.pod.pods import Gate, Pod
from tests.builders import condition, pod, workload
from ungater.gate_plan import RANK_PATIENCE, GateChange, expected_pods, may_open, plan

BY_INDEX = {"podIndexLabel": JOB_COMPLETION_INDEX}


def indexed(name: str, index: int, **more: Any) -> Pod:
    return pod(name, labels={JOB_COMPLETION_INDEX: str(index)}, **more)


def places(openings: Sequence[GateChange]) -> dict[str, str]:
    return {o.pod.metadata.name: o.node_labels[HOSTNAME_LABEL] for o in openings}


@pytest.mark.parametrize(
    ("conditions", "opens"),
    [
        pytest.param([], True, id="admitted"),
        pytest.param([condition("Evicted")], False, id="evicted-but-not-yet-stopped"),
        pytest.param([condition("Finished")], False, id="finished"),
    ],
)
def test_only_pods_of_an_admitted_workload_pass(conditions: list[dict[str, Any]], opens: bool) -> None:
    found = workload(domains=[(("n1",), 1)], conditions=conditions)
    assert may_open(found) is opens
    assert bool(plan(found, [pod("p")])) is opens


def test_ranks_follow_the_order_of_the_domains() -> None:
    wl = workload(count=4, domains=[(("n1",), 2), (("n2",), 2)], topology_request=BY_INDEX)
    pods = [indexed("d", 3), indexed("a", 0), indexed("c", 2), indexed("b", 1)]
    assert places(plan(wl, pods)) == {"a": "n1", "b": "n1", "c": "n2", "d": "n2"}


def test_a_replacement_takes_the_place_of_the_pod_that_failed() -> None:
    wl = workload(count=2, domains=[(("n1",), 1), (("n2",), 1)], topology_request=BY_INDEX)
    pods = [
        indexed("old", 0, gated=False, selector={HOSTNAME_LABEL: "n1"}, phase="Failed"),
        indexed("other", 1, gated=False, selector={HOSTNAME_LABEL: "n2"}),
        indexed("new", 0),
    ]
    assert places(plan(wl, pods)) == {"new": "n1"}


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param([indexed("a", 0), indexed("b", 0)], id="doubled"),
        pytest.param([indexed("a", 0), pod("b")], id="missing"),
        pytest.param([indexed("a", 0), indexed("b", 7)], id="out-of-range"),
        pytest.param([indexed("a", 0, gated=False, selector={HOSTNAME_LABEL: "n2"}), indexed("b", 1)], id="elsewhere"),
    ],
)
def test_ranks_that_do_not_tell_fall_back_to_greedy_and_every_place_is_used_once(pods: list[Pod]) -> None:
    wl = workload(count=2, domains=[(("n1",), 1), (("n2",), 1)], topology_request=BY_INDEX)
    through = [p.spec.node_selector[HOSTNAME_LABEL] for p in pods if not p.gated]
    assert Counter([*through, *places(plan(wl, pods)).values()]) == {"n1": 1, "n2": 1}


def test_pods_beyond_the_assignment_stay_gated() -> None:
    wl = workload(count=1, domains=[(("n1",), 1)])
    assert len(plan(wl, [pod("a"), pod("b")])) == 1


def test_a_pod_that_was_gated_ahead_opens_as_it_is_where_there_is_no_topology() -> None:
    """The first form's pods bear the annotation of the webhook that gated them; others stay gated, as in Kueue."""
    ahead = pod("a", annotations={TOPOLOGY_PODSET: "main"})
    openings = plan(workload(count=2, admitted=True), [ahead, pod("b")])
    assert [(o.pod.metadata.name, dict(o.node_labels)) for o in openings] == [("a", {})]


@pytest.mark.parametrize(("through", "opened"), [(0, 2), (1, 1), (2, 0), (3, 0)])
def test_no_more_pods_that_were_gated_ahead_open_than_were_admitted(through: int, opened: int) -> None:
    """Others can name the Workload too."""
    running = [pod(f"r{number}", gated=False) for number in range(through)]
    waiting = [pod(f"w{number}", annotations={TOPOLOGY_PODSET: "main"}) for number in range(4)]
    assert len(plan(workload(count=2, admitted=True), [*waiting, *running])) == opened


def test_nothing_goes_to_a_node_that_waits_for_replacement() -> None:
    wl = workload(count=2, domains=[(("n1",), 1), (("n2",), 1)], status={"unhealthyNodes": [{"name": "n1"}]})
    assert set(places(plan(wl, [pod("a"), pod("b")])).values()) == {"n2"}


@pytest.mark.parametrize(
    ("domains", "through", "opened"),
    [
        pytest.param([(("n1",), 4), (("n2",), 4)], {"n2": 4}, 0, id="all-run-elsewhere"),
        pytest.param([(("n1",), 4), (("n2",), 4)], {"n1": 1, "n2": 1}, 2, id="some-run-elsewhere"),
        pytest.param([(("n1",), 8)], {"n1": 3}, 1, id="one-domain"),
        pytest.param(None, {"": 3}, 1, id="no-topology"),
    ],
)
def test_a_job_that_shrank_opens_no_pod_beyond_what_it_requests(
    domains: list[tuple[tuple[str, ...], int]] | None, through: dict[str, int], opened: int
) -> None:
    """Its Workload requests 4 of the 8 pods that it was admitted for; the rest of its quota is others'."""
    wl = workload(count=8, domains=domains, admitted=True)
    [pod_set] = wl.spec.pod_sets
    elastic = wl.metadata.model_copy(update={"annotations": {ELASTIC_JOB: "true"}})
    fewer = wl.spec.model_copy(update={"pod_sets": (pod_set.model_copy(update={"count": 4}),)})
    wl = wl.model_copy(update={"metadata": elastic, "spec": fewer})
    running = [
        pod(f"r-{node}-{number}", gated=False, selector={HOSTNAME_LABEL: node} if node else {})
        for node, count in through.items()
        for number in range(count)
    ]
    waiting = [pod(f"w-{number}") for number in range(8)]
    if domains is None:
        gate = (Gate(ELASTIC_GATE),)
        waiting = [replace(one, spec=replace(one.spec, scheduling_gates=gate)) for one in waiting]
    assert len(plan(wl, [*running, *waiting])) == opened
    assert expected_pods(wl) == 4


@given(
    counts=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    seen=st.integers(0, 30),
    ranked=st.booleans(),
    data=st.data(),
)
def test_no_domain_ever_gets_more_pods_than_assigned(
    counts: list[int], seen: int, ranked: bool, data: st.DataObject
) -> None:
    """Pass after pass over pods that appear in any order: the sums hold, and when all were seen all are placed."""
    total = sum(counts)
    domains = [((f"n{i}",), count) for i, count in enumerate(counts)]
    wl = workload(count=total, domains=domains, topology_request=BY_INDEX if ranked else None)
    order = data.draw(st.permutations(range(total)))
    known: dict[str, Pod] = {}
    for index in order[: min(seen, total)] + order[min(seen, total) :]:
        known[f"p{index}"] = indexed(f"p{index}", index)
        for opening in plan(wl, list(known.values())):
            name = opening.pod.metadata.name
            known[name] = indexed(name, int(name[1:]), gated=False, selector=dict(opening.node_labels))
    spread = Counter(p.spec.node_selector.get(HOSTNAME_LABEL) for p in known.values())
    assert spread == {f"n{i}": count for i, count in enumerate(counts)}


SINCE = parse_time("2026-01-01T00:00:00Z") or 0.0
"""When the tests' workloads were admitted."""


def test_pods_of_a_sakkara_group_go_through_only_with_their_rank() -> None:
    """An environment variable that is made of the label is filled."""
    wl = workload(
        count=2, domains=[(("n1",), 1), (("n2",), 1)], metadata={"annotations": {SAKKARA_GROUP_ANNOTATION: "g"}}
    )
    sent = plan(wl, [pod("a"), pod("b")], SINCE + 1)
    assert [opening.closed for opening in sent] == [True, True], "they are sent to their nodes, the gates stay"
    assert places(sent) == {"a": "n1", "b": "n2"}
    there = {name: pod(name, selector={HOSTNAME_LABEL: node}) for name, node in places(sent).items()}
    assert plan(wl, list(there.values()), SINCE + 1) == [], "they wait for their ranks"
    ranked = pod("b", selector={HOSTNAME_LABEL: "n2"}, labels={SAKKARA_RANK: "1"})
    (opening,) = plan(wl, [there["a"], ranked], SINCE + 1)
    assert (opening.pod, opening.closed, places([opening])) == (ranked, False, {"b": "n2"})
    late = plan(wl, list(there.values()), SINCE + RANK_PATIENCE)
    assert [(o.pod.metadata.name, o.closed) for o in late] == [("a", False), ("b", False)], "but not for ever"
    assert places(late) == {"a": "n1", "b": "n2"}
