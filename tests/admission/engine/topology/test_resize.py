"""A job grows or shrinks: what runs stays, only what is new is placed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from admission.engine.model import Node, PlacementOptions, PlacementRequest, TopologyRequest
from tests.admission.engine.topology.test_properties import options, quick
from tests.admission.engine.topology.test_replace import at, few, roomy
from tests.admission.engine.topology.vectors import ledger, request, shown


def resized(name: str, text: str, count: int, where: str, group: str | None = None) -> PlacementRequest:
    """A pod set of 1-cpu pods, of which some are placed already."""
    return replace(request(name, text, count, group=group), previous=at(where))


@pytest.mark.parametrize(
    ("text", "count", "where", "want"),
    [
        pytest.param("unconstrained", 5, "h1:2 h2:1", "h1:2 h2:1 h3:2", id="grows beside what it has"),
        pytest.param("unconstrained", 4, "h1:2 h3:1", "h1:3 h3:1", id="grows where it is"),
        pytest.param("unconstrained", 3, "h2:1 h1:2", "h2:1 h1:2", id="as many: untouched"),
        pytest.param("unconstrained", 3, "h1:2 h3:2 h4:1", "h1:2 h3:1", id="shrinks from the end"),
        pytest.param("unconstrained", 2, "h1:1 gone:1", "h3:2", id="a place is gone: anew"),
        pytest.param("required rack", 4, "h1:3", "h1:3 h2:1", id="in the required rack"),
        pytest.param(
            "required rack",
            8,
            "h1:3",
            'topology "default" allows to fit only 3 out of 5 pod(s). Total nodes: 10; '
            'excluded: resource "cpu": 1, topologyDomain: 7',
            id="required rack is full",
        ),
        pytest.param("required nowhere", 2, "h1:1", "no requested topology level: nowhere", id="level is gone"),
    ],
)
def test_what_runs_stays(text: str, count: int, where: str, want: str) -> None:
    assert shown(ledger().placement.place([resized("main", text, count, where)]), "main") == want


@pytest.mark.parametrize(
    ("count", "leader", "want"),
    [
        pytest.param(3, "h2:1", ("h2:1", "h1:2 h3:1"), id="leader and workers stay"),
        pytest.param(4, "h2:1", ("h2:1", "h1:3 h3:1"), id="workers grow"),
        pytest.param(2, "h2:1", ("h2:1", "h1:2"), id="workers shrink"),
        pytest.param(3, None, ("h1:1", "h1:2 h3:1"), id="a leader is new"),
        pytest.param(4, None, ("h6:1", "h1:2 h3:1 h6:1"), id="a leader is new and workers grow"),
    ],
)
def test_a_leader_keeps_its_place(count: int, leader: str | None, want: tuple[str, str]) -> None:
    first = request("leader", "unconstrained", 1, group="g")
    first = replace(first, previous=None if leader is None else at(leader))
    workers = resized("workers", "unconstrained", count, "h1:2 h3:1", "g")
    result = ledger().placement.place([first, workers])
    assert (shown(result, "leader"), shown(result, "workers")) == want


@quick
@given(roomy, few, options, st.integers(1, 14))
def test_growing_is_exact_and_moves_nothing(
    nodes: list[Node], requested: PlacementRequest, given_options: PlacementOptions, count: int
) -> None:
    requested = replace(requested, pod_set=replace(requested.pod_set, topology=TopologyRequest(unconstrained=True)))
    book = ledger(given_options, nodes)
    first = book.placement.place([requested])
    assume(first.fits)
    before = first.assignments["main"]
    result = book.placement.place([replace(requested, count=count, previous=before)])
    assert book.audit() == []
    assert result.fits == book.placement.place([replace(requested, count=count)]).fits
    if not result.fits:
        return
    old = Counter({domain.values[0]: domain.count for domain in before.domains})
    new = Counter({domain.values[0]: domain.count for domain in result.assignments["main"].domains})
    assert new.total() == count
    assert old <= new or new <= old
    offered = {node.name: node.allocatable for node in nodes if node.usable}
    for name, pods in new.items():
        for resource, amount in {**requested.pod_set.requests, "pods": 1}.items():
            assert amount * pods <= offered[name][resource]
