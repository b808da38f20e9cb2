"""The tiny evaluator of matchConditions: what it understands, above all our own configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from api.fake.cel import CelError, compile_cel

SCOPE: dict[str, Any] = {
    "object": {"metadata": {"name": "x", "labels": {"a.b/c": "d"}}, "spec": {"n": 3, "list": ["p", "q"]}},
    "oldObject": None,
    "request": {"operation": "CREATE", "userInfo": {"username": "system:admin"}},
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
]


@pytest.mark.parametrize(("text", "expected"), EXPRESSIONS, ids=[text for text, _ in EXPRESSIONS])
def test_expressions(text: str, expected: bool) -> None:
    assert compile_cel(text)(SCOPE) is expected


@pytest.mark.parametrize("text", ["a b", "object.", "(object", "object.f(1", "now() > 1", "'open", "x ? y", "1 +"])
def test_what_is_not_understood(text: str) -> None:
    with pytest.raises(CelError):
        compile_cel(text)(SCOPE)


def test_an_absent_field_is_an_error() -> None:
    with pytest.raises(CelError, match="no such key: annotations"):
        compile_cel("'x' in object.metadata.annotations")(SCOPE)


def _ours() -> list[str]:
    folder = Path(__file__).parents[3] / "config" / "webhook"
    documents = [yaml.safe_load(path.read_text()) for path in sorted(folder.glob("*ating.yaml"))]
    conditions = [
        item for document in documents for hook in document["webhooks"] for item in hook.get("matchConditions", [])
    ]
    return sorted({item["expression"].strip() for item in conditions})


@pytest.mark.parametrize("text", _ours())
def test_our_own_configuration_is_understood(text: str) -> None:
    assert compile_cel(text)(SCOPE) in (True, False)
