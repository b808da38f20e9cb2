"""What the chart's generator makes of objects and patches. tests/e2e/test_chart.py compares the chart with kustomize."""

from __future__ import annotations

import re
from typing import Any

import pytest

from hack.chart.document import BLOCK, LINE, TEXT, VALUE, rendered
from hack.chart.templates import _either
from hack.chart.values import defaults, schema

RENDERED = {
    "text in braces stays text": ({"a": "{{ $labels.job }}"}, 'a: \'{{ "{{" }} $labels.job {{ "}}" }}\'\n'),
    "a value": ({"a": f"{VALUE}.Values.x | quote"}, "a: {{ .Values.x | quote }}\n"),
    "a block": ({"a": {"b": f"{BLOCK}toYaml .Values.x"}}, "a:\n  b:\n    {{- toYaml .Values.x | nindent 4 }}\n"),
    "a text": ({"a": {"b": f"{TEXT}.Files.Get x"}}, "a:\n  b: |\n    {{- .Files.Get x | nindent 4 }}\n"),
    "a condition around keys": (
        {f'{LINE}if eq .Values.x "A"': None, "a": 1, f"{LINE}end # 1": None},
        '{{- if eq .Values.x "A" }}\na: 1\n{{- end }}\n',
    ),
    "a condition around items": (
        {"a": [f"{LINE}if .Values.x", "b", f"{LINE}end"]},
        "a:\n  {{- if .Values.x }}\n  - b\n  {{- end }}\n",
    ),
}


@pytest.mark.parametrize(("obj", "text"), RENDERED.values(), ids=RENDERED)
def test_marks_become_actions(obj: dict[str, Any], text: str) -> None:
    assert rendered(obj) == text


def test_what_a_component_adds_is_under_its_condition() -> None:
    base = {"env": [{"name": "a"}], "name": "x"}
    patched = {"env": [{"name": "a"}, {"name": "b"}], "name": "x", "more": 1}
    text = rendered(_either(base, patched, base, "visibility"))
    condition = r"\{\{- if \.Values\.visibility\.enabled \}\}\n"
    assert re.search(condition + r"  - name: b\n  \{\{- end \}\}", text)
    assert re.search(condition + r"more: 1\n\{\{- end \}\}", text)


UNSUPPORTED = {
    "a changed value": {"name": "y", "env": ["a", "b"]},
    "a removed key": {"env": ["a", "b"]},
    "a removed item": {"name": "x", "env": ["a"]},
}


@pytest.mark.parametrize("patched", UNSUPPORTED.values(), ids=UNSUPPORTED)
def test_a_patch_that_no_template_can_express_is_an_error(patched: dict[str, Any]) -> None:
    base = {"name": "x", "env": ["a", "b"]}
    with pytest.raises(ValueError, match="config/visibility"):
        _either(base, patched, base, "visibility")


def test_an_unknown_component_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(ValueError, match="config/another is a component: declare its value"):
        _either({}, {"a": 1}, {}, "another")


def test_each_value_has_a_description_and_a_default() -> None:
    assert all(field.description for field in type(defaults()).model_fields.values())
    assert not schema()["additionalProperties"]
