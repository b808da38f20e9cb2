"""Python refuses to read thousands of digits, with an error that ended the cycle."""

from __future__ import annotations

import pytest

from admission.engine.flavors.eligible import unsuitable
from admission.engine.model import Flavor, NodeSelectorRequirement, NodeSelectorTerm, PodSet
from admission.engine.topology.tree.match import int64
from api.annotations.requests import parse_int32


@pytest.mark.parametrize(
    ("text", "number"),
    [("9" * 5000, None), ("0" * 5000 + "1", None), ("-" + "9" * 5000, None), ("9" * 19, None), ("007", 7), ("-3", -3)],
    ids=["digits", "zeros", "negative", "beyond-64-bits", "leading-zeros", "plain"],
)
def test_a_number_of_any_length_is_read_or_none(text: str, number: int | None) -> None:
    assert int64(text) == number
    assert parse_int32(text) == number


def test_a_flavor_is_judged_by_any_affinity() -> None:
    term = NodeSelectorTerm((NodeSelectorRequirement("generation", "Gt", ("9" * 5000,)),))
    pod_set = PodSet(name="main", count=1, requests={"cpu": 1}, affinity=(term,))
    flavor = Flavor(name="gpu", node_labels={"generation": "9"})
    assert unsuitable(pod_set, flavor, ("cpu",), implied=False) == "flavor gpu doesn't match node affinity"
