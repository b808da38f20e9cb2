"""Required node affinity that says nothing is told as such, for workers and for leaders."""

from __future__ import annotations

from dataclasses import replace

import pytest

from admission.engine.model import NodeSelectorRequirement, NodeSelectorTerm, PlacementRequest
from tests.admission.engine.topology.vectors import RACK, ledger, request, shown

OPERATORS = "the operator must be one of In, NotIn, Exists, DoesNotExist, Gt, Lt"


def choosing(name: str, term: NodeSelectorTerm, count: int = 1, group: str | None = None) -> PlacementRequest:
    """An unconstrained pod set with this required term."""
    made = request(name, "unconstrained", count, group=group)
    return replace(made, pod_set=replace(made.pod_set, affinity=(term,)))


def expression(operator: str, *values: str) -> NodeSelectorTerm:
    """A term about the rack."""
    return NodeSelectorTerm(match_expressions=(NodeSelectorRequirement(key=RACK, operator=operator, values=values),))


def field(operator: str, *values: str) -> NodeSelectorTerm:
    """A term about the node's name."""
    return NodeSelectorTerm(
        match_fields=(NodeSelectorRequirement(key="metadata.name", operator=operator, values=values),)
    )


@pytest.mark.parametrize(
    ("term", "want"),
    [
        pytest.param(expression("Near", "r1"), f"{RACK} Near [r1], reason: {OPERATORS}", id="operator"),
        pytest.param(expression("In"), f"{RACK} In [], reason: In needs at least one value", id="in"),
        pytest.param(expression("NotIn"), f"{RACK} NotIn [], reason: NotIn needs at least one value", id="not in"),
        pytest.param(expression("Exists", "a"), f"{RACK} Exists [a], reason: Exists takes no values", id="exists"),
        pytest.param(
            expression("Gt", "a"), f"{RACK} Gt [a], reason: Gt needs exactly one value, an integer", id="greater"
        ),
        pytest.param(
            expression("Lt", "1", "2"), f"{RACK} Lt [1 2], reason: Lt needs exactly one value, an integer", id="less"
        ),
        pytest.param(
            field("Exists"),
            "metadata.name Exists [], reason: the operator of a field must be one of In, NotIn",
            id="field operator",
        ),
        pytest.param(
            field("In", "h1", "h2"),
            "metadata.name In [h1 h2], reason: In needs exactly one value for a field",
            id="field values",
        ),
    ],
)
def test_the_reason_names_what_is_wrong(term: NodeSelectorTerm, want: str) -> None:
    message = f"invalid affinity node selectors: {want}"
    assert shown(ledger().placement.place([choosing("main", term)]), "main") == message
    both = [choosing("leader", term, group="g"), choosing("workers", expression("Exists"), 2, "g")]
    assert shown(ledger().placement.place(both), "workers") == message


@pytest.mark.parametrize(
    "term",
    [
        pytest.param(expression("In", "r1"), id="in"),
        pytest.param(expression("NotIn", "r2"), id="not in"),
        pytest.param(expression("Exists"), id="exists"),
        pytest.param(field("In", "h2"), id="field"),
    ],
)
def test_sound_terms_place(term: NodeSelectorTerm) -> None:
    assert shown(ledger().placement.place([choosing("main", term)]), "main") == "h2:1"
