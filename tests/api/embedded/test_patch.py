"""JSON, merge and strategic merge patches: results, refusals, and that nothing given is ever changed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.embedded.patch import clone, json_patch, merge_patch
from api.embedded.status import StatusError
from api.embedded.writes.strategic import strategic_merge

DOCUMENT = {"a": [1, 2, 3], "b": {"c": "d", "x/y": 1, "m~n": 2}}

OPERATIONS = [
    pytest.param([{"op": "add", "path": "/a/1", "value": 9}], {"a": [1, 9, 2, 3]}, id="insert"),
    pytest.param([{"op": "add", "path": "/a/-", "value": 9}], {"a": [1, 2, 3, 9]}, id="append"),
    pytest.param([{"op": "add", "path": "/b/c", "value": 9}], {"b": {"c": 9, "x/y": 1, "m~n": 2}}, id="overwrite"),
    pytest.param([{"op": "remove", "path": "/b/x~1y"}], {"b": {"c": "d", "m~n": 2}}, id="escaped-slash"),
    pytest.param([{"op": "replace", "path": "/b/m~0n", "value": 3}], {"b": {"c": "d", "x/y": 1, "m~n": 3}}, id="tilde"),
    pytest.param([{"op": "move", "from": "/a/0", "path": "/z"}], {"a": [2, 3], "z": 1}, id="move"),
    pytest.param([{"op": "copy", "from": "/b/c", "path": "/z"}], {"z": "d"}, id="copy"),
    pytest.param([{"op": "test", "path": "/a/0", "value": 1}, {"op": "remove", "path": "/a"}], {"a": None}, id="test"),
]


@pytest.mark.parametrize(("operations", "changed"), OPERATIONS)
def test_json_patch(operations: list[dict[str, Any]], changed: dict[str, Any]) -> None:
    before = clone(DOCUMENT)
    expected = {key: value for key, value in {**DOCUMENT, **changed}.items() if value is not None}
    assert json_patch(DOCUMENT, operations) == expected
    assert before == DOCUMENT


BROKEN = [
    pytest.param([{"op": "test", "path": "/a/0", "value": 2}], 422, id="test-fails"),
    pytest.param([{"op": "remove", "path": "/none"}], 422, id="remove-nothing"),
    pytest.param([{"op": "replace", "path": "/none", "value": 1}], 422, id="replace-nothing"),
    pytest.param([{"op": "add", "path": "/none/x", "value": 1}], 422, id="no-parent"),
    pytest.param([{"op": "add", "path": "/a/7", "value": 1}], 422, id="index"),
    pytest.param([{"op": "add", "path": "/a"}], 422, id="no-value"),
    pytest.param([{"op": "jump", "path": "/a"}], 400, id="unknown"),
    pytest.param({"op": "add"}, 400, id="no-list"),
]


@pytest.mark.parametrize(("operations", "status"), BROKEN)
def test_json_patches_that_do_not_apply(operations: Any, status: int) -> None:
    with pytest.raises(StatusError) as refused:
        json_patch(DOCUMENT, operations)
    assert refused.value.status == status


TREES = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=2), children, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(max_size=2), TREES, max_size=4)


@given(OBJECTS, OBJECTS)
def test_merge_patch_takes_every_value_and_changes_nothing_given(target: dict[str, Any], patch: dict[str, Any]) -> None:
    before = clone(target), clone(patch)
    merged = merge_patch(target, patch)
    assert (target, patch) == before
    assert merge_patch(merged, patch) == merged
    for key, value in patch.items():
        assert (key in merged) == (value is not None)
        if value is not None and not isinstance(value, dict):
            assert merged[key] == value
    assert all(merged[key] == target[key] for key in target if key not in patch)


GATES = {"spec": {"schedulingGates": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}}


def _gates(*names: str) -> dict[str, Any]:
    return {"spec": {"schedulingGates": [{"name": name} for name in names]}}


STRATEGIC = [
    pytest.param(
        GATES, {"spec": {"schedulingGates": [{"name": "b", "$patch": "delete"}]}}, _gates("a", "c"), id="delete"
    ),
    pytest.param(GATES, _gates("z"), _gates("z", "a", "b", "c"), id="new-item-first"),
    pytest.param(GATES, _gates("b"), GATES, id="known-item-stays"),
    pytest.param(
        GATES, {"spec": {"schedulingGates": [{"$patch": "replace"}, {"name": "z"}]}}, _gates("z"), id="replace-list"
    ),
    pytest.param(
        {"spec": {"tolerations": [{"key": "a"}]}},
        {"spec": {"tolerations": [{"key": "b"}]}},
        {"spec": {"tolerations": [{"key": "b"}]}},
        id="tolerations-are-atomic",
    ),
    pytest.param(
        {"spec": {"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}]}, {"name": "b"}]}},
        {"spec": {"containers": [{"name": "a", "env": [{"name": "Y", "value": "2"}]}]}},
        {
            "spec": {
                "containers": [
                    {"name": "a", "env": [{"name": "Y", "value": "2"}, {"name": "X", "value": "1"}]},
                    {"name": "b"},
                ]
            }
        },
        id="nested-keys",
    ),
    pytest.param(
        {"status": {"conditions": [{"type": "A", "status": "False", "reason": "Why"}]}},
        {"status": {"conditions": [{"type": "A", "status": "True"}]}},
        {"status": {"conditions": [{"type": "A", "status": "True", "reason": "Why"}]}},
        id="conditions-by-type",
    ),
    pytest.param(
        {"metadata": {"finalizers": ["a"]}},
        {"metadata": {"finalizers": ["a", "b"]}},
        {"metadata": {"finalizers": ["a", "b"]}},
        id="finalizers-are-a-set",
    ),
    pytest.param(
        {"metadata": {"finalizers": ["a", "b"]}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}},
        {"metadata": {"finalizers": ["b"]}},
        id="delete-from-set",
    ),
    pytest.param(
        {"spec": {"nodeSelector": {"a": "1"}}},
        {"spec": {"nodeSelector": {"$patch": "replace", "b": "2"}}},
        {"spec": {"nodeSelector": {"b": "2"}}},
        id="replace-map",
    ),
    pytest.param(
        {"spec": {"volume": {"emptyDir": {}}}},
        {"spec": {"volume": {"$retainKeys": ["name"], "name": "x"}}},
        {"spec": {"volume": {"name": "x"}}},
        id="retain-keys",
    ),
]


@pytest.mark.parametrize(("target", "patch", "expected"), STRATEGIC)
def test_strategic_merge(target: dict[str, Any], patch: dict[str, Any], expected: dict[str, Any]) -> None:
    before = clone(target)
    assert strategic_merge(target, patch, "Pod") == expected
    assert target == before


def test_a_list_item_without_its_key_is_a_bad_request() -> None:
    with pytest.raises(StatusError, match="does not contain declared merge key: name"):
        strategic_merge(GATES, {"spec": {"schedulingGates": [{"nom": "x"}]}}, "Pod")
