"""Annotations of Topologies about moves: what is read, and what is refused."""

from __future__ import annotations

import pytest

from api.annotations.defragmentation import DefragmentPolicy, MoveRequest, policy_of, request_of
from api.errors import InvalidObject
from api.names import DEFRAGMENT, DEFRAGMENT_NOW, MOVES_PER_DAY

HOUR = 3600.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rack: largest gang < 16 hosts", DefragmentPolicy("rack", 16)),
        ("example.com/rack: largest gang < 2 hosts, idle > 20%", DefragmentPolicy("example.com/rack", 2, 20)),
        ("rack: largest gang < 1 hosts, at 00:00-23:59", DefragmentPolicy("rack", 1, 0, (0, 1439))),
        ("r: largest gang < 9 hosts, idle > 0%, at 22:30-06:00", DefragmentPolicy("r", 9, 0, (1350, 360))),
    ],
    ids=["least", "idle", "hours", "all"],
)
def test_a_policy_is_read(text: str, expected: DefragmentPolicy) -> None:
    assert policy_of({DEFRAGMENT: text}) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "true",
        "rack: largest gang < 0 hosts",
        "rack: largest gang < -1 hosts",
        "rack: largest gang < 16",
        "rack: largest gang < 1000000 hosts",
        "rack: largest gang < 2 hosts, idle > 100%",
        "rack: largest gang < 2 hosts, idle > -5%",
        "rack: largest gang < 2 hosts, at 24:00-06:00",
        "rack: largest gang < 2 hosts, at 22:00-22:00",
        "rack: largest gang < 2 hosts, at 22:00",
        "rack: largest gang < 2 hosts ",
        "rack: largest gang < 2 hosts\n",
        "-rack: largest gang < 2 hosts",
        "rack: largest gang < ٢ hosts",
        "r" * 600 + ": largest gang < 2 hosts",
    ],
)
def test_a_policy_of_another_form_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(InvalidObject) as refused:
        policy_of({DEFRAGMENT: text})
    assert DEFRAGMENT in refused.value.field
    assert "must" in refused.value.allowed
    assert len(str(refused.value)) < 2000


@pytest.mark.parametrize(("text", "per_day"), [("0", 0), ("100000", 100_000)])
def test_a_budget_of_a_policy_is_read(text: str, per_day: int) -> None:
    found = policy_of({DEFRAGMENT: "rack: largest gang < 2 hosts", MOVES_PER_DAY: text})
    assert found is not None
    assert found.per_day == per_day


@pytest.mark.parametrize("text", ["", "-1", "1.5", "many", "100001", "01", "9" * 50])
def test_a_budget_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(InvalidObject, match="from 0 to 100000"):
        policy_of({DEFRAGMENT: "rack: largest gang < 2 hosts", MOVES_PER_DAY: text})


@pytest.mark.parametrize(
    ("hours", "inside", "outside"),
    [("08:00-10:00", [8, 9.9], [7.9, 10, 22]), ("22:00-06:00", [22, 23.9, 0, 5.9], [6, 12, 21.9])],
    ids=["day", "over-midnight"],
)
def test_hours_are_of_the_day_in_utc(hours: str, inside: list[float], outside: list[float]) -> None:
    policy = policy_of({DEFRAGMENT: f"rack: largest gang < 2 hosts, at {hours}"})
    assert policy is not None
    assert all(policy.due(1000 * 86_400 + at * HOUR) for at in inside)
    assert not any(policy.due(1000 * 86_400 + at * HOUR) for at in outside)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4f2a domain rack", MoveRequest("4f2a", "rack")),
        ("4f2a workload team-a/gang.1", MoveRequest("4f2a", "", "team-a/gang.1")),
    ],
)
def test_a_request_is_read(text: str, expected: MoveRequest) -> None:
    assert request_of({DEFRAGMENT_NOW: text}) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "4f2a",
        "4f2a domain",
        "4f2a workload gang",
        "4f2a workload a/b/c",
        "x domain rack",
        "4F2A domain rack",
        "a" * 5000,
    ],
)
def test_a_request_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(InvalidObject, match="ID domain LEVEL"):
        request_of({DEFRAGMENT_NOW: text})


def test_without_annotations_nothing_is_asked() -> None:
    assert policy_of({MOVES_PER_DAY: "x"}) is None
    assert request_of({}) is None
