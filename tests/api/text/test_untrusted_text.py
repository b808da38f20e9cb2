"""Text of others is measured before it is parsed, and nothing but ValueError comes of it."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.text.untrusted_text import DEEPEST, LONGEST, bounded, cut, read_json, unique_entries


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("[" * 6000, "within each other", id="open"),
        pytest.param(nested(6000), "within each other", id="closed"),
        pytest.param('{"a":' * 6000, "within each other", id="objects"),
        pytest.param(nested(DEEPEST + 1), "within each other", id="one-too-deep"),
        pytest.param('"' + "a" * LONGEST + '"', "at most", id="long"),
        pytest.param("9" * 5000, "digits", id="digits"),
        pytest.param("1e999", "too large", id="infinite"),
        pytest.param("[NaN]", "no JSON", id="no-number"),
        pytest.param(r'"\ud800"', "surrogate", id="half-a-character"),
        pytest.param("", "Expecting value", id="empty"),
    ],
)
def test_what_cannot_be_read_is_a_value_error(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        read_json(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(nested(DEEPEST), id="as-deep-as-allowed"),
        pytest.param(json.dumps(["[" * 100, '"' + "{" * 100]), id="brackets-in-strings"),
        pytest.param("[" + ",".join(["[]"] * 1000) + "]", id="many-side-by-side"),
        pytest.param(json.dumps("\U0001f600"), id="a-character-of-two-halves"),
    ],
)
def test_what_can_be_read_is_read(text: str) -> None:
    assert read_json(text) == json.loads(text)


@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_what_json_writes_is_read_back(value: object) -> None:
    assert read_json(json.dumps(value)) == value


@pytest.mark.parametrize("text", ['"\\' * 60_000, "[]" * 60_000, '\\"' * 60_000], ids=["escapes", "closed", "quotes"])
def test_measuring_takes_one_pass(text: str) -> None:
    started = time.perf_counter()
    assert bounded("[]" * (DEEPEST + 1) + text)
    assert time.perf_counter() - started < 5  # quadratic takes minutes


def test_what_lies_too_deep_is_cut_out() -> None:
    given_ = b'{"a":{"b":[1,{"c":"]"}]},"d":[[["x"]]],"e":"[[[["}'
    assert json.loads(cut(given_, 2, b"0")) == {"a": {"b": 0}, "d": [0], "e": "[[[["}
    assert json.loads(cut(given_, 9, b"0")) == json.loads(given_)


def test_a_key_stands_there_once() -> None:
    with pytest.raises(ValueError, match="a appears twice"):
        read_json('{"a": 1, "a": 2}', pairs=unique_entries)
