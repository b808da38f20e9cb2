"""Parses label and field selectors, and matches objects.

kinds.py defines which fields a kind supports. Called by table.py and watch.py through `Filter`, and by admission.py for
objectSelector and namespaceSelector.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from api.embedded.status import Obj, bad_request

_KEY = re.compile(r"^(?:[a-z0-9.-]+/)?[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?$")
_SET = re.compile(r"^(\S+)\s+(in|notin)\s*\(([^()]*)\)$")
_COMPARE = re.compile(r"^([^!=<>\s]+)\s*(==|=|!=|<|>)\s*([^=!<>\s]*)$")


@dataclass(frozen=True, slots=True)
class LabelRequirement:
    """One requirement. `op` is in, notin, exists, absent, gt or lt."""

    key: str
    op: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.op:
            case "in":
                return value is not None and value in self.values
            case "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "absent":
                return value is None
            case _:
                return _compares(self.op, value, self.values)


def _compares(op: str, value: str | None, bounds: Collection[str]) -> bool:
    try:
        given, bound = int(value or ""), int(next(iter(bounds)))
    except ValueError:
        return False
    return given > bound if op == "gt" else given < bound


Selector = tuple[LabelRequirement, ...]


def parse_labels(text: str) -> Selector:
    """Parses `a=b,c!=d,e in (f,g),h notin (i),j,!k`. Raises status 400 for other text."""
    return tuple(_term(term.strip()) for term in _split(text) if term.strip())


def _split(text: str) -> list[str]:
    """Splits at commas outside parentheses."""
    return re.split(r",(?![^(]*\))", text) if text else []


def _term(term: str) -> LabelRequirement:
    if match := _SET.match(term):
        key, op, values = match.groups()
        return LabelRequirement(_key(key, term), op, frozenset(value.strip() for value in values.split(",")))
    if match := _COMPARE.match(term):
        key, op, value = match.groups()
        name = {"=": "in", "==": "in", "!=": "notin", ">": "gt", "<": "lt"}[op]
        return LabelRequirement(_key(key, term), name, frozenset((value,)))
    if term.startswith("!"):
        return LabelRequirement(_key(term[1:].strip(), term), "absent")
    return LabelRequirement(_key(term, term), "exists")


def _key(key: str, term: str) -> str:
    if not _KEY.match(key):
        raise bad_request(f"unable to parse requirement: found '{term}', expected: a label selector term")
    return key


def from_object(selector: Obj | None) -> Selector:
    """Returns the selector of a LabelSelector object (matchLabels, matchExpressions). None and {} select everything."""
    selector = selector or {}
    terms = [
        LabelRequirement(key, "in", frozenset((value,))) for key, value in (selector.get("matchLabels") or {}).items()
    ]
    ops = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "absent"}
    terms += [
        LabelRequirement(item["key"], ops[item["operator"]], frozenset(item.get("values") or ()))
        for item in selector.get("matchExpressions") or ()
    ]
    return tuple(terms)


def matches(selector: Selector, labels: Mapping[str, str] | None) -> bool:
    return all(term.matches(labels or {}) for term in selector)


@dataclass(frozen=True, slots=True)
class FieldTerm:
    path: tuple[str, ...]
    equal: bool
    value: str

    def matches(self, obj: Obj) -> bool:
        return (field_text(obj, self.path) == self.value) == self.equal


def field_text(obj: Obj, path: tuple[str, ...]) -> str:
    """Returns a field as selectors compare it: "" if absent, booleans in lower case."""
    value: Any = obj
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def parse_fields(text: str, allowed: Callable[[str], bool]) -> tuple[FieldTerm, ...]:
    """Parses `metadata.name=a,spec.nodeName!=`. Raises status 400 for a field that the kind does not support."""
    terms = []
    for term in filter(None, (part.strip() for part in text.split(","))):
        match = re.match(r"^([^!=]+)(==|=|!=)(.*)$", term)
        if not match:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        field, op, value = match.groups()
        if not allowed(field):
            raise bad_request(f"field label not supported: {field}")
        terms.append(FieldTerm(tuple(field.split(".")), op != "!=", value))
    return tuple(terms)


@dataclass(frozen=True, slots=True)
class Filter:
    """The selectors of a list or watch."""

    labels: Selector = ()
    fields: tuple[FieldTerm, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.labels or self.fields)

    def matches(self, obj: Obj) -> bool:
        if self.labels and not matches(self.labels, obj["metadata"].get("labels")):
            return False
        return all(term.matches(obj) for term in self.fields)


EVERYTHING = Filter()
