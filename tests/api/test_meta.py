"""How types meet the wire: names, unknown fields, what is left out; conditions; keys and times."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from api.meta import (
    Condition,
    KubeObject,
    ObjectMeta,
    find_condition,
    is_true,
    object_key,
    parse_time,
    rfc3339,
    set_condition,
    split_key,
)

META: dict[str, Any] = {
    "name": "n",
    "namespace": "ns",
    "uid": "u",
    "resourceVersion": "7",
    "generation": 3,
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "labels": {"a": "b"},
    "finalizers": ["f"],
    "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "x", "controller": True}],
    "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}],
    "selfLink": "somewhere",
}


def test_metadata_comes_back_with_what_we_do_not_know() -> None:
    assert ObjectMeta.from_wire(META).to_wire() == META


def test_what_was_not_set_is_not_written() -> None:
    assert ObjectMeta(name="n").to_wire() == {"name": "n"}
    assert ObjectMeta(name="n", namespace=None).to_wire() == {"name": "n"}


def test_an_object_says_what_it_is() -> None:
    assert KubeObject(metadata=ObjectMeta(name="n")).to_wire() == {
        "apiVersion": "v1",
        "kind": "",
        "metadata": {"name": "n"},
    }


def test_types_are_values() -> None:
    meta = ObjectMeta(name="n")
    with pytest.raises(ValidationError, match="frozen"):
        setattr(meta, "name", "m")  # noqa: B010  the type checker refuses the plain form
    assert meta.model_copy(update={"name": "m"}).name == "m"


def test_a_wrong_type_is_named_by_its_path() -> None:
    with pytest.raises(ValidationError, match=r"metadata\.labels"):
        KubeObject.from_wire({"metadata": {"labels": ["a"]}})


@pytest.mark.parametrize(("namespace", "name", "key"), [("ns", "n", "ns/n"), (None, "n", "n"), ("", "n", "n")])
def test_keys(namespace: str | None, name: str, key: str) -> None:
    assert object_key(namespace, name) == key
    assert split_key(key) == (namespace or None, name)


def condition(status: str, *, kind: str = "A", reason: str = "R", at: str | None = None) -> Condition:
    return Condition(type=kind, status=status, reason=reason, last_transition_time=at)


def test_conditions_are_true_false_or_neither() -> None:
    conditions = [condition("True"), condition("False", kind="B"), condition("Unknown", kind="C")]
    assert is_true(conditions, "A")
    assert not any(is_true(conditions, kind) for kind in ("B", "C", "D"))
    assert find_condition(conditions, "D") is None


OLD, NEW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param("True", OLD, id="same status keeps its time"),
        pytest.param("False", NEW, id="other status moves it"),
    ],
)
def test_transition_time(status: str, want: str) -> None:
    before = (condition("True", kind="Z"), condition("True", at=OLD))
    after = set_condition(before, condition(status, reason="New", at=NEW))
    assert [c.type for c in after] == ["Z", "A"]
    assert (after[1].reason, after[1].last_transition_time) == ("New", want)


def test_a_new_condition_goes_last() -> None:
    assert [c.type for c in set_condition([condition("True")], condition("True", kind="B"))] == ["A", "B"]


@given(seconds=st.integers(0, 4_000_000_000))
def test_times_come_back(seconds: int) -> None:
    assert parse_time(rfc3339(seconds)) == seconds


def test_times() -> None:
    assert rfc3339(1767225600.9) == "2026-01-01T00:00:00Z"
    assert parse_time("2026-01-01T01:00:00+01:00") == 1767225600
    assert parse_time("2026-01-01T00:00:00.500Z") == 1767225600.5
    assert parse_time(None) is None
    with pytest.raises(ValueError, match="yesterday"):
        parse_time("yesterday")
