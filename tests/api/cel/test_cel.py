"""The small evaluator of CEL: what it understands, our own configuration, and what it refuses to spend on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from api.cel.cel import CelError, compile_cel
from api.cel.cel_authorizer import Authorizer
from api.text.manifests import read_one

SCOPE: dict[str, Any] = {
    "object": {"metadata": {"name": "x", "labels": {"a.b/c": "d"}}, "spec": {"n": 3, "list": ["p", "q"]}},
    "oldObject": None,
    "request": {
        "operation": "CREATE",
        "userInfo": {"username": "system:admin"},
        "resource": {"group": "batch", "resource": "jobs"},
    },
}

EXPRESSIONS = [
    ("'a.b/c' in object.metadata.labels", True),
    ('"none" in object.metadata.labels', False),
    ("has(object.metadata.labels) && 'a.b/c' in object.metadata.labels", True),
    ("has(object.metadata.annotations) && 'x' in object.metadata.annotations", False),
    ("!has(object.metadata.annotations)", True),
    ("!(has(object.metadata.labels) && 'z' in object.metadata.labels)", True),
    ("request.userInfo.username != 'system:serviceaccount:a:b'", True),
    ("request.operation == 'CREATE' || object.spec != oldObject.spec", True),
    ("oldObject == null", True),
    ("object.spec.n >= 3 && object.spec.n < 4", True),
    ("object.metadata.labels['a.b/c'] == 'd' ? true : false", True),
    ("object.?metadata.?annotations['x'].orValue('none') == 'none'", True),
    ("object.metadata.?labels[?'a.b/c'].hasValue()", True),
    ("object.spec.list.exists(item, item == 'q')", True),
    ("object.spec.list.all(item, item.startsWith('p'))", False),
    ("size(object.spec.list) == 2 && 'p' in ['p', 'r']", True),
    ("request.operation in ['CREATE', 'UPDATE']", True),
    ("object.nothing.here == 1 || true", True),
    ("false && object.nothing.here == 1", False),
    ("object.spec.list.map(x, size(x)).sum() == 2", True),
    ("object.spec.list.filter(x, x > 'p') == ['q']", True),
    ("object.spec.list.exists_one(x, x == 'p')", True),
    ("2 + 3 * 4 - 7 / 2 % 2 == 13", True),
    ("-7 / 2 == -3 && -7 % 2 == -1", True),
    ("'a' + 'b' == 'ab' && size([1] + [2]) == 2", True),
    ("object.metadata.labels.exists(k, k == 'a.b/c' && object.metadata.labels[k] == 'd')", True),
    ("object.?status.?conditions.orValue([]).exists(c, c.type == 'Ready')", False),
    ("true == 1", False),
    ("int('-12') + int(object.spec.n) == -9", True),
]


@pytest.mark.parametrize(("text", "expected"), EXPRESSIONS, ids=[text for text, _ in EXPRESSIONS])
def test_expressions(text: str, expected: bool) -> None:
    assert compile_cel(text)(SCOPE) is expected


def test_an_authorizer_answers_for_the_rights_of_a_users_request() -> None:
    asked: list[Mapping[str, str]] = []

    def may(question: Mapping[str, str]) -> bool:
        asked.append(question)
        return question["check"] == "update"

    scope = {**SCOPE, "authorizer": Authorizer(may)}
    start = "authorizer.group('a.b/v1'.split('/')[0]).resource('Job'.lowerAscii() + 's').subresource('status')"
    for verb in ("update", "delete"):
        assert compile_cel(f"{start}.check('{verb}').allowed()")(scope) is (verb == "update")
    assert asked[0] == {"group": "a.b", "resource": "jobs", "subresource": "status", "check": "update"}
    with pytest.raises(CelError, match="not an authorizer"):
        compile_cel("object.spec.check('update')")(scope)


@pytest.mark.parametrize("text", ["a b", "object.", "(object", "object.f(1", "now() > 1", "'open", "x ? y", "1 +"])
def test_what_is_not_understood(text: str) -> None:
    with pytest.raises(CelError):
        compile_cel(text)(SCOPE)


def test_an_absent_field_is_an_error() -> None:
    with pytest.raises(CelError, match="no such key: annotations"):
        compile_cel("'x' in object.metadata.annotations")(SCOPE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("object.spec.n.exists(x, true)", "neither a list nor a map: 3", id="macro over a number"),
        pytest.param("object.spec.list + 1", "not an integer", id="list and number"),
        pytest.param("object.spec.n < 'a'", "cannot be ordered", id="order of a number and a string"),
        pytest.param("int('1e9') > 0", "not an integer", id="a text that is no integer"),
        pytest.param("object.spec.n / 0", "division", id="division by zero"),
        pytest.param("9223372036854775807 + 1 > 0", "integer overflow", id="overflow"),
        pytest.param("9" * 5000 + " > 0", "integer overflow", id="a literal of 5000 digits"),
        pytest.param("(" * 4000 + "1" + ")" * 4000, "nested too deep", id="parentheses"),
        pytest.param("!" * 9000 + "true", "nested too deep", id="negations"),
        pytest.param(" || ".join(["true"] * 3000), "at most 10000 characters", id="length"),
        pytest.param("size(object.spec.n) > 0", "has no len", id="size of a number"),
        pytest.param("object.spec.n.sum() > 0", "neither a list nor a map", id="sum of a number"),
        pytest.param("object.spec.list[0 - 1] == 'q'", "no such key: -1", id="a position before the first"),
        pytest.param("object.spec.list[true] == 'q'", "no such key: True", id="a position that is no number"),
        pytest.param("'text'[0] == 't'", "no such key: 0", id="a character of a text"),
        pytest.param(
            "object[['x']" + ".map(a, [a, a])" * 60 + "]", "no such key: a list of 1", id="a key that no text holds"
        ),
    ],
)
def test_what_goes_wrong_is_one_kind_of_error(text: str, message: str) -> None:
    with pytest.raises(CelError, match=message):
        compile_cel(text)(SCOPE)


@pytest.mark.parametrize(
    "call", ["orValue()", "startsWith()", "hasValue(1)", "size(1)", "contains('a', 'b')", "none()"]
)
def test_a_call_of_a_wrong_form_does_not_parse(call: str) -> None:
    """It is refused with its JobKind, and not found out at each object of the kind."""
    with pytest.raises(CelError, match=r"unknown method '\w+' with \d arguments"):
        compile_cel(f"object.spec.{call}")


@pytest.mark.parametrize(
    "text", ["size(object.spec.n) > 0 || true", "!(object[['x']] == 1 && false)", "!has(object[['x']].y)"]
)
def test_a_wrong_type_beside_a_decisive_side_is_no_error(text: str) -> None:
    assert compile_cel(text)(SCOPE) is True


MANY = [f"a{number}" for number in range(10_000)]
DEEP = [{"k": [number, "x"]} for number in range(10_000)]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("object.a.all(x, object.a.all(y, object.a.all(z, true)))", id="macros in macros"),
        pytest.param("object.a.all(x, !(x in object.b))", id="a list searched for each element"),
        pytest.param("object.a.all(x, object.m == object.n)", id="large values compared"),
        pytest.param("object.a.map(x, object.a + object.a)", id="lists joined"),
        pytest.param("object.a.all(x, object.t + x != x)", id="long texts joined"),
        pytest.param("object.a.all(x, !object.t.contains(x))", id="a long text searched"),
        pytest.param("object.a.all(x, object.t.startsWith(object.t))", id="a long text compared"),
        pytest.param("object.a.all(x, " + "||".join(["x == 1"] * 200) + " || true)", id="a long expression"),
        pytest.param('["x"]' + ".map(a, a + a)" * 130 + " == []", id="a text that doubles 130 times"),
        pytest.param('["x"]' + ".map(a, [a, a])" * 60 + " == " + '["x"]' + ".map(a, [a, a])" * 60, id="lists of lists"),
    ],
)
def test_work_is_bounded(text: str) -> None:
    """An expression that would never end, or fill the memory. What it may take is less than 20,000 steps."""
    scope = {"a": MANY, "b": [f"b{number}" for number in range(2_000)], "m": DEEP, "n": list(DEEP), "t": "x" * 500_000}
    with pytest.raises(CelError, match="more than 20000 steps"):
        compile_cel(text)({"object": scope})


def test_a_large_object_is_read_whole() -> None:
    scope = {"status": {"conditions": [{"type": f"t{number}", "status": "True"} for number in range(9_000)]}}
    text = 'object.status.conditions.exists(c, c.type == "t8999" && c.status == "True")'
    assert compile_cel(text)({"object": scope}) is True


@pytest.mark.parametrize(
    "text",
    [
        '1 + ["x"]' + ".map(a, [a, a])" * 12,
        "-object.m",
        "object.t.exists(x, true)",
        "object.m[object.t]",
        "object.a < object.m",
    ],
)
def test_an_error_about_a_value_is_short(text: str) -> None:
    with pytest.raises(CelError) as error:
        compile_cel(text)({"object": {"a": MANY, "m": dict.fromkeys(MANY, 1), "t": "x" * 500_000}})
    assert len(str(error.value)) < 200


def _ours() -> list[str]:
    folder = Path(__file__).parents[2] / "config" / "webhook"
    documents = [read_one(path) for path in sorted(folder.glob("*ating.yaml"))]
    conditions = [
        item for document in documents for hook in document["webhooks"] for item in hook.get("matchConditions", [])
    ]
    return sorted({item["expression"].strip() for item in conditions})


@pytest.mark.parametrize("text", _ours())
def test_our_own_configuration_is_understood(text: str) -> None:
    """Each condition holds or does not for an update, of objects with as little as the API server lets them have."""
    stored = {"metadata": {"name": "x"}, "spec": {"template": {}}}
    request = {**SCOPE["request"], "operation": "UPDATE"}
    assert compile_cel(text)({"object": stored, "oldObject": stored, "request": request}) in (True, False)
