"""Which gated pod goes to which domain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.names import HOSTNAME_LABEL, JOB_COMPLETION_INDEX
from api.pods import Pod
from tests.builders import condition, pod, workload
from ungater.plan import Opening, may_open, plan

BY_INDEX = {"podIndexLabel": JOB_COMPLETION_INDEX}


def indexed(name: str, index: int, **more: Any) -> Pod:
    return pod(name, labels={JOB_COMPLETION_INDEX: str(index)}, **more)


def places(openings: Sequence[Opening]) -> dict[str, str]:
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


def test_a_pod_set_without_topology_opens_as_it_is() -> None:
    openings = plan(workload(count=1, admitted=True), [pod("a")])
    assert [(o.pod.metadata.name, dict(o.node_labels)) for o in openings] == [("a", {})]


def test_nothing_goes_to_a_node_that_waits_for_replacement() -> None:
    wl = workload(count=2, domains=[(("n1",), 1), (("n2",), 1)], status={"unhealthyNodes": [{"name": "n1"}]})
    assert set(places(plan(wl, [pod("a"), pod("b")])).values()) == {"n2"}


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
