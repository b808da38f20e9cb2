"""The language of placement constraints: what can be said, and what each fault is told as."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.annotations.constraints import MOST, WORDS, contradictions, read
from api.topology_request import PlacementConstraint


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param('{"rack": {}}', [{"level": "rack"}], id="pack-is-the-default"),
        pytest.param(
            '{"rack": {"type": "spread", "partitions": 2}, "node": {"type": "pack"}}',
            [{"level": "rack", "type": "spread", "partitions": 2}, {"level": "node", "type": "pack"}],
            id="story-a",
        ),
        pytest.param(
            '{"server": {"type": "pack"}, "node": {"type": "spread", "min": 2, "max": 4}}',
            [{"level": "server", "type": "pack"}, {"level": "node", "type": "spread", "min": 2, "max": 4}],
            id="story-b",
        ),
        pytest.param(
            '{"example.com/rack": {"factor": 4, "hard": true}}',
            [{"level": "example.com/rack", "factor": 4, "hard": True}],
            id="label-key",
        ),
        pytest.param(
            '{"a/rack": {}, "b/rack": {}}', [{"level": "a/rack"}, {"level": "b/rack"}], id="two-keys-of-one-last-part"
        ),
    ],
)
def test_what_can_be_said(text: str, want: list[dict[str, Any]]) -> None:
    found = read(text)
    assert found.faults == ()
    assert [constraint.to_wire() for constraint in found.constraints] == want


NUMBER = f"must be a whole number from 1 to {MOST}"
LEVEL = "must be the label key of a level, or what follows the last / of it"


@pytest.mark.parametrize(
    ("text", "path", "value", "allowed"),
    [
        pytest.param("{", (), "{", "must be a JSON object by level: ", id="no-json"),
        pytest.param("", (), "", "must be a JSON object by level: ", id="nothing"),
        pytest.param('{"rack": NaN}', (), '{"rack": NaN}', "must be a JSON object by level: NaN is no JSON", id="nan"),
        pytest.param("[" * 100_000, (), "[" * 100_000, "must be a JSON object by level: ", id="bottomless"),
        pytest.param("9" * 5000, (), "9" * 5000, "must be a JSON object by level: ", id="endless-number"),
        pytest.param("[]", (), "[]", "must be a JSON object by level, not an array", id="array"),
        pytest.param("7", (), "7", "must be a JSON object by level, not a number", id="number"),
        pytest.param("null", (), "null", "must be a JSON object by level, not null", id="null"),
        pytest.param("{}", (), 0, "must have from 1 to 16 levels", id="empty"),
        pytest.param(
            json.dumps({f"l{n}": {} for n in range(17)}), (), 17, "must have from 1 to 16 levels", id="too-many-levels"
        ),
        pytest.param('{"rack": {}, "rack": {}}', ("rack",), "rack", "appears twice", id="level-twice"),
        pytest.param('{"": {}}', ("",), "", LEVEL, id="level-without-name"),
        pytest.param('{"a/b/c": {}}', ("a/b/c",), "a/b/c", LEVEL, id="level-no-label"),
        pytest.param(
            '{"x.io/rack": {}, "rack": {}}', ("rack",), "rack", 'names the same level as "x.io/rack"', id="label-and-name"
        ),
        pytest.param('{"rack": "pack"}', ("rack",), "pack", f"must be an object of the words {', '.join(WORDS)}", id="word"),
        pytest.param('{"rack": null}', ("rack",), None, f"must be an object of the words {', '.join(WORDS)}", id="no-object"),
        pytest.param(
            '{"rack": {"kind": "pack"}}', ("rack", "kind"), "pack", f"unknown word: must be one of {', '.join(WORDS)}",
            id="unknown-word",
        ),
        pytest.param('{"rack": {"min": 1, "min": 2}}', ("rack", "min"), "min", "appears twice", id="word-twice"),
        pytest.param('{"rack": {"type": "Pack"}}', ("rack", "type"), "Pack", "must be one of pack, spread", id="type"),
        pytest.param('{"rack": {"type": {"a": 1}}}', ("rack", "type"), {"a": 1}, "must be one of pack, spread", id="type-map"),
        pytest.param('{"rack": {"hard": "yes"}}', ("rack", "hard"), "yes", "must be true or false", id="hard"),
        pytest.param('{"rack": {"factor": 0}}', ("rack", "factor"), 0, NUMBER, id="factor-0"),
        pytest.param('{"rack": {"min": -1}}', ("rack", "min"), -1, NUMBER, id="negative"),
        pytest.param('{"rack": {"max": 2.0}}', ("rack", "max"), 2.0, NUMBER, id="fraction"),
        pytest.param('{"rack": {"max": true}}', ("rack", "max"), True, NUMBER, id="boolean-for-number"),
        pytest.param('{"rack": {"max": "2"}}', ("rack", "max"), "2", NUMBER, id="text-for-number"),
        pytest.param('{"rack": {"max": 2147483648}}', ("rack", "max"), 2**31, NUMBER, id="beyond-32-bits"),
        pytest.param(
            '{"rack": {"min": 4, "max": 2}}', ("rack", "min"), 4, "contradicts max 2: must not be greater", id="min-above-max"
        ),
        pytest.param(
            '{"rack": {"min": 5, "max": 7, "factor": 4}}', ("rack", "factor"), 4,
            "contradicts min 5 and max 7: no count in that range is a multiple", id="factor-without-multiple",
        ),
        pytest.param(
            '{"rack": {"max": 3, "factor": 4}}', ("rack", "factor"), 4,
            "contradicts max 3: no count in that range is a multiple", id="factor-above-max",
        ),
        pytest.param(
            '{"rack": {"type": "pack", "partitions": 2}}', ("rack", "partitions"), 2,
            'contradicts type "pack": only "spread" has partitions', id="partitions-packed",
        ),
        pytest.param(
            '{"rack": {"partitions": 2}}', ("rack", "partitions"), 2,
            'contradicts type "pack": only "spread" has partitions', id="partitions-without-type",
        ),
    ],
)  # fmt: skip
def test_each_error_is_reported(text: str, path: tuple[str, ...], value: Any, allowed: str) -> None:
    found = read(text)
    assert found.constraints == ()
    (fault,) = found.faults
    assert (fault.path, fault.given) == (path, value)
    assert fault.allowed.startswith(allowed)


def test_all_errors_are_reported_at_once() -> None:
    found = read('{"rack": {"factor": 0, "min": -1}, "node": 3}')
    assert [fault.path for fault in found.faults] == [("rack", "factor"), ("rack", "min"), ("node",)]


def test_more_partitions_than_pods() -> None:
    (constraint,) = read('{"rack": {"type": "spread", "partitions": 3}}').constraints
    assert contradictions((constraint,), 3) == []
    (fault,) = contradictions((constraint,), 2)
    assert (fault.path, fault.given) == (("rack", "partitions"), 3)
    assert fault.allowed == 'contradicts the size of pod set "main": 2 pod(s)'


small = st.none() | st.integers(1, 9)


@given(small, small, small)
def test_a_range_and_factor_contradict_exactly_where_no_count_serves(
    least: int | None, most: int | None, factor: int | None
) -> None:
    given = PlacementConstraint(level="rack", min=least, max=most, factor=factor)
    counts = range(least or 1, (most or 100) + 1)
    assert bool(contradictions((given,))) is not any(count % (factor or 1) == 0 for count in counts)
