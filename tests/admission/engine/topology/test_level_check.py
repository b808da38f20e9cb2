"""Nodes change their labels under running pods: which required levels no longer hold."""

from __future__ import annotations

import pytest

from admission.engine.model import ObjectRemoved, RemovedKind
from admission.engine.topology.questions.level_check import BrokenLevel
from tests.admission.engine.topology.test_replace import book_of, placed
from tests.admission.engine.topology.vectors import BLOCK, RACK, node

R1, R2 = ("b1", "r1"), ("b1", "r2")


def moved(host: str, rack: str, *requested: tuple[str, str]) -> list[BrokenLevel]:
    """Pod sets (topology request, places) are running; then the host gets another rack label."""
    group = "together" if len(requested) > 1 else None
    requests = [placed(f"set{n}", text, where, group) for n, (text, where) in enumerate(requested)]
    book = book_of(*requests)
    assert book.placement.broken_levels(requests) == [], "all holds before"
    book.apply(node(host, {BLOCK: "b1", RACK: rack}, 4))
    found = book.placement.broken_levels(requests)
    assert book.audit() == []
    return found


@pytest.mark.parametrize(
    ("topology", "where", "expected"),
    [
        pytest.param("required rack", "h1:1 h3:1", [("set0", RACK, 1, ((R1, 1), (R2, 1)))], id="two racks"),
        pytest.param("required rack", "h1:2", [], id="all pods move together"),
        pytest.param("required block", "h1:1 h3:1", [], id="the block still holds"),
        pytest.param("preferred rack", "h1:1 h3:1", [], id="a preferred level promises nothing"),
        pytest.param("unconstrained", "h1:1 h3:1", [], id="no level"),
        pytest.param(
            "required block; slice rack*2",
            "h1:1 h3:1 h4:2",
            [("set0", RACK, 2, ((R1, 1), (R2, 3)))],
            id="a broken slice",
        ),
        pytest.param("required block; slice host*1", "h1:1 h3:1", [], id="slices of one pod"),
    ],
)
def test_a_host_gets_another_rack(topology: str, where: str, expected: list[tuple[object, ...]]) -> None:
    found = moved("h1", "r2", (topology, where))
    assert [(one.pod_sets[0], one.level, one.slice_size, one.domains) for one in found] == expected


def test_pod_sets_of_one_group_share_the_required_domain() -> None:
    [found] = moved("h1", "r2", ("required rack", "h1:1"), ("required rack", "h3:2"))
    assert sorted(found.pod_sets) == ["set0", "set1"]
    assert found.domains == ((R1, 2), (R2, 1))


def test_a_node_that_is_gone_breaks_no_level() -> None:
    requested = placed("set0", "required rack", "h1:1 h3:1")
    book = book_of(requested)
    book.apply(ObjectRemoved(RemovedKind.NODE, "h1"))
    assert book.placement.broken_levels([requested]) == []
