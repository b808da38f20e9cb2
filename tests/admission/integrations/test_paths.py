"""Paths in objects that others write."""

from __future__ import annotations

from typing import Any

import pytest

from admission.integrations.paths import not_kept, written

GATES = [{"name": "a"}, {"name": "b"}]


@pytest.mark.parametrize(
    ("patch", "obj", "lost"),
    [
        pytest.param({"spec": {"suspend": True}}, {"spec": {"suspend": True, "more": 1}}, None, id="kept beside more"),
        pytest.param({"spec": {"suspend": True}}, {"spec": {}}, "spec.suspend", id="dropped"),
        pytest.param({"spec": {"suspend": True}}, {"spec": {"suspend": False}}, "spec.suspend", id="reset"),
        pytest.param({"spec": {"suspend": False}}, {"spec": {}}, "spec.suspend", id="false is not absence"),
        pytest.param({"spec": {"a": None}}, {"spec": {}}, None, id="removed"),
        pytest.param({"spec": {"a": {}}}, {}, None, id="an empty map needs no field"),
        pytest.param({"spec": {"a": {"b": 1}}}, {"spec": "text"}, "spec.a.b", id="through a text"),
        pytest.param({"spec": {"gates": GATES}}, {"spec": {"gates": GATES}}, None, id="list"),
        pytest.param({"spec": {"gates": GATES}}, {"spec": {"gates": GATES[:1]}}, "spec.gates", id="shorter list"),
        pytest.param(
            {"spec": {"gates": GATES}}, {"spec": {"gates": [{"name": "a"}, {}]}}, "spec.gates[1].name", id="item"
        ),
        pytest.param(
            {"spec": {"gates": GATES}}, {"spec": {"gates": [{"name": "a", "x": 1}, *GATES[1:]]}}, None, id="default"
        ),
    ],
)
def test_the_first_value_that_an_object_did_not_keep_is_found(patch: Any, obj: Any, lost: str | None) -> None:
    found = not_kept(patch, obj)
    assert (None if found is None else written(found)) == lost
