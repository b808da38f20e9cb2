"""Parses label selectors in text form, as a scale subresource's status has them, to LabelSelector objects. Pure."""

from __future__ import annotations

import re
from typing import Any, Final

from api.errors import InvalidObject

LONGEST: Final = 4096
MOST_TERMS: Final = 64
_KEY: Final = r"(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_VALUE: Final = r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?"
_COMPARED: Final = re.compile(rf"({_KEY})\s*(==|=|!=)\s*({_VALUE})")
_AMONG: Final = re.compile(rf"({_KEY})\s+(in|notin)\s*\(([^()]*)\)")
_THERE: Final = re.compile(rf"(!?)\s*({_KEY})")
_COMMAS: Final = re.compile(r",(?![^(]*\))")
_OPERATORS: Final = {"=": "In", "==": "In", "!=": "NotIn", "in": "In", "notin": "NotIn"}
_FORM: Final = "must be a label selector such as app=web,tier in (a, b)"


def parse_selector(text: Any, field: str, name: str = "") -> dict[str, Any]:
    """Parses a label selector. `field` and `name` locate it in error messages. Raises InvalidObject.

    An empty selector is refused, because it would select every pod.
    """
    if not isinstance(text, str) or not text.strip():
        raise InvalidObject(field, text, _FORM, name)
    if len(text) > LONGEST:
        raise InvalidObject(field, f"{len(text)} characters", f"must have at most {LONGEST} characters", name)
    terms = _COMMAS.split(text)
    if len(terms) > MOST_TERMS:
        raise InvalidObject(field, f"{len(terms)} terms", f"must have at most {MOST_TERMS} terms", name)
    parsed = [_term(term.strip()) for term in terms]
    if None in parsed:
        raise InvalidObject(field, text, _FORM, name)
    return {"matchExpressions": parsed}


def _term(term: str) -> dict[str, Any] | None:
    if match := _COMPARED.fullmatch(term):
        key, operator, value = match.groups()
        return {"key": key, "operator": _OPERATORS[operator], "values": [value]}
    if match := _AMONG.fullmatch(term):
        key, operator, values = match.groups()
        return {"key": key, "operator": _OPERATORS[operator], "values": [each.strip() for each in values.split(",")]}
    if match := _THERE.fullmatch(term):
        absent, key = match.groups()
        return {"key": key, "operator": "DoesNotExist" if absent else "Exists"}
    return None
