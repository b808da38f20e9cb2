"""What an AdvanceReservation may say, also where the API server does not check it."""

from __future__ import annotations

from typing import Any

import pytest

from admission.controllers.watch.advance_reservations.view import advance_reservation
from admission.engine.features.advance_reservations.reservation import AdvanceReservation as Hold
from api.advance_reservations import AdvanceReservation
from api.errors import InvalidObject

GOOD: dict[str, Any] = {
    "nodeLabels": {"rack": "r0"},
    "start": "2030-01-01T00:00:00Z",
    "end": "2030-01-01T01:00:00+00:00",
    "namespaces": ["team"],
}


def given(**changed: Any) -> AdvanceReservation:
    return AdvanceReservation.from_wire({"metadata": {"name": "a"}, "spec": {**GOOD, **changed}})


def test_the_value_has_times_in_seconds() -> None:
    found = advance_reservation(given())
    assert found == Hold("a", {"rack": "r0"}, 1893456000.0, 1893459600.0, namespaces=frozenset({"team"}))


def test_a_reservation_in_the_past_is_read_and_over() -> None:
    """Its controller says so (`over since`); nothing is held for it."""
    found = advance_reservation(given(start="2001-01-01T00:00:00Z", end="2001-01-01T01:00:00Z", clusterQueue="team-a"))
    assert found.queue == "team-a"
    assert not found.charging


@pytest.mark.parametrize(
    ("field", "changed"),
    [
        pytest.param("spec.nodeLabels", {"nodeLabels": {}}, id="no-labels"),
        pytest.param("spec.nodeLabels", {"nodeLabels": {str(n): "" for n in range(9)}}, id="too-many-labels"),
        pytest.param("spec.nodeLabels", {"nodeLabels": {"rack": "r" * 1000}}, id="long-value"),
        pytest.param("spec.nodeLabels", {"nodeLabels": {"": "r0"}}, id="empty-key"),
        pytest.param("spec.start", {"start": ""}, id="no-start"),
        pytest.param("spec.start", {"start": "tomorrow"}, id="not-a-time"),
        pytest.param("spec.start", {"start": "2030-01-01T00:00:00"}, id="no-zone"),
        pytest.param("spec.start", {"start": "9" * 100_000 + "Z"}, id="long-time"),
        pytest.param("spec.end", {"end": "2029-01-01T00:00:00Z"}, id="ends-before-it-starts"),
        pytest.param("spec.end", {"end": GOOD["start"]}, id="empty"),
        pytest.param("spec.nodeLabels", {"nodeLabels": {str(n): "" for n in range(100_000)}}, id="huge-list-of-labels"),
        pytest.param("spec.nodeLabels", {"nodeLabels": {"k" * 1_000_000: ""}}, id="huge-key"),
        pytest.param("spec.clusterQueue", {"clusterQueue": "Team_A"}, id="no-name-of-a-queue"),
        pytest.param("spec.clusterQueue", {"clusterQueue": "a" * 254}, id="too-long-name-of-a-queue"),
        pytest.param("spec.clusterQueue", {"clusterQueue": "a\nb"}, id="a-queue-in-two-lines"),
        pytest.param("spec.clusterQueue", {"clusterQueue": "a\n"}, id="a-queue-with-a-line-end"),
        pytest.param("spec.namespaces", {"namespaces": [f"n{n}" for n in range(65)]}, id="too-many-namespaces"),
    ],
)
def test_what_breaks_a_rule_names_field_and_allowed_values(field: str, changed: dict[str, Any]) -> None:
    with pytest.raises(InvalidObject) as raised:
        advance_reservation(given(**changed))
    assert raised.value.field == field
    assert len(str(raised.value)) < 1000
    assert "allowed" in str(raised.value)
