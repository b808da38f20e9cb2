"""Structural schemas of CRDs: prunes unknown fields, sets defaults, validates.

Checks types, required fields, enums, patterns, bounds, list-map keys and int-or-string, with the real server's messages. CEL
rules (x-kubernetes-validations) and formats are NOT checked; the suites on the real server test CEL rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from api.embedded.patch import clone
from api.embedded.status import Cause, Obj, duplicate, invalid_value, required, shown, unsupported

_KEEP = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED = "x-kubernetes-embedded-resource"
_INT_OR_STRING = "x-kubernetes-int-or-string"
# The server owns these fields of the root, whatever the schema says.
_ROOT = frozenset(("apiVersion", "kind", "metadata"))

_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
}


@dataclass(frozen=True, slots=True)
class Schema:
    """The openAPIV3Schema of one version."""

    root: Obj

    @classmethod
    def of(cls, root: Obj | None) -> Schema:
        return cls(root if root is not None else {_KEEP: True})

    def prune(self, obj: Obj) -> list[str]:
        """Drops unknown fields in place; returns the paths of dropped fields."""
        gone: list[str] = []
        for name in list(obj):
            if name not in _ROOT:
                _prune_field(self.root, obj, name, name, gone)
        return gone

    def default(self, obj: Obj) -> None:
        """Sets defaults in place; a null counts as absent if the field has a default."""
        _default(self.root, obj)

    def check(self, obj: Obj) -> list[Cause]:
        rest = {name: value for name, value in obj.items() if name not in _ROOT}
        return list(_check(_without_root_fields(self.root), rest, ""))

    def at(self, path: tuple[str, ...]) -> Obj:
        """Returns the schema of a field by its path; "*" stands for list items and map values."""
        node = self.root
        for step in path:
            node = _child(node, step)
        return node


def _without_root_fields(root: Obj) -> Obj:
    names = [name for name in root.get("required") or () if name not in _ROOT]
    return {**root, "required": names}


def _child(node: Obj, step: str) -> Obj:
    if step == "*" and "items" in node:
        return dict(node["items"])
    child = (node.get("properties") or {}).get(step)
    if child is None and isinstance(node.get("additionalProperties"), dict):
        child = node["additionalProperties"]
    return child if isinstance(child, dict) else {}


def _prune(schema: Obj, value: Any, path: str, gone: list[str]) -> None:
    if isinstance(value, list):
        for i, item in enumerate(value):
            _prune(schema.get("items") or {}, item, f"{path}[{i}]", gone)
    elif isinstance(value, dict):
        for name in list(value):
            if not (schema.get(_EMBEDDED) and name in _ROOT):
                _prune_field(schema, value, name, f"{path}.{name}", gone)


def _prune_field(schema: Obj, value: Obj, name: str, path: str, gone: list[str]) -> None:
    known = (schema.get("properties") or {}).get(name)
    extra = schema.get("additionalProperties")
    if known is not None:
        _prune(known, value[name], path, gone)
    elif isinstance(extra, dict):
        _prune(extra, value[name], path, gone)
    elif not schema.get(_KEEP) and extra is not True:
        del value[name]
        gone.append(path)


def _default(schema: Obj, value: Any) -> None:
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        for item in value:
            _default(schema["items"], item)
    elif isinstance(value, dict):
        for name, child in (schema.get("properties") or {}).items():
            _default_field(child, value, name)
        if isinstance(schema.get("additionalProperties"), dict):
            for item in value.values():
                _default(schema["additionalProperties"], item)


def _default_field(child: Obj, value: Obj, name: str) -> None:
    if name in value and value[name] is None and not child.get("nullable"):
        del value[name]
    if name not in value and "default" in child:
        value[name] = clone(child["default"])
    if name in value:
        _default(child, value[name])


def _check(schema: Obj, value: Any, path: str) -> Iterator[Cause]:
    if value is None:
        if not schema.get("nullable") and schema.get("type"):
            yield _wrong_type(schema, value, path)
        return
    if schema.get(_INT_OR_STRING):
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            yield _wrong_type({"type": "integer,string"}, value, path)
            return
    elif not _is_type(schema.get("type"), value):
        yield _wrong_type(schema, value, path)
        return
    if schema.get("enum") and value not in schema["enum"]:
        yield unsupported(path, value, schema["enum"])
    yield from _check_value(schema, value, path)


def _is_type(name: str | None, value: Any) -> bool:
    if not name or name not in _TYPES:
        return True
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[name])


def _type_name(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    names = {dict: "object", list: "array", str: "string", int: "integer", float: "number"}
    return names[type(value)]


def _wrong_type(schema: Obj, value: Any, path: str) -> Cause:
    given = _type_name(value)
    text = f'Invalid value: "{given}": {path} in body must be of type {schema.get("type")}: "{given}"'
    return Cause("FieldValueTypeInvalid", text, path)


def _check_value(schema: Obj, value: Any, path: str) -> Iterator[Cause]:
    if isinstance(value, dict):
        yield from _check_object(schema, value, path)
    elif isinstance(value, list):
        yield from _check_list(schema, value, path)
    elif isinstance(value, str):
        yield from _check_string(schema, value, path)
    elif not isinstance(value, bool):
        yield from _check_number(schema, value, path)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _check_object(schema: Obj, value: Obj, path: str) -> Iterator[Cause]:
    for name in schema.get("required") or ():
        if name not in value:
            yield required(_join(path, name))
    limit = schema.get("maxProperties")
    if limit is not None and len(value) > limit:
        yield _too_many(path, len(value), limit)
    low = schema.get("minProperties")
    if low is not None and len(value) < low:
        yield invalid_value(path, value, f"{path} in body should have at least {low} properties")
    properties, extra = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, item in value.items():
        child = properties.get(name, extra)
        if isinstance(child, dict):
            yield from _check(child, item, _join(path, name))


def _check_list(schema: Obj, value: list[Any], path: str) -> Iterator[Cause]:
    low, high = schema.get("minItems"), schema.get("maxItems")
    if high is not None and len(value) > high:
        yield _too_many(path, len(value), high)
    if low is not None and len(value) < low:
        yield invalid_value(path, len(value), f"{path} in body should have at least {low} items")
    for i, item in enumerate(value):
        yield from _check(schema.get("items") or {}, item, f"{path}[{i}]")
    yield from _check_unique(schema, value, path)


def _check_unique(schema: Obj, value: list[Any], path: str) -> Iterator[Cause]:
    kind, seen = schema.get("x-kubernetes-list-type"), []
    for i, item in enumerate(value):
        if kind == "map" and isinstance(item, dict):
            mark: Any = {key: item.get(key) for key in schema["x-kubernetes-list-map-keys"]}
        elif kind == "set":
            mark = item
        else:
            return
        if mark in seen:
            yield duplicate(f"{path}[{i}]", mark)
        seen.append(mark)


def _too_many(path: str, length: int, limit: int) -> Cause:
    items = "item" if limit == 1 else "items"
    return Cause("FieldValueTooMany", f"Too many: {length}: must have at most {limit} {items}", path)


def _check_string(schema: Obj, value: str, path: str) -> Iterator[Cause]:
    low, high, pattern = schema.get("minLength"), schema.get("maxLength"), schema.get("pattern")
    if high is not None and len(value) > high:
        yield Cause("FieldValueTooLong", f"Too long: may not be more than {high} bytes", path)
    elif low is not None and len(value) < low:
        yield invalid_value(path, value, f"{path} in body should be at least {low} chars long")
    elif pattern and not re.search(pattern, value):
        yield invalid_value(path, value, f"{path} in body should match '{pattern}'")


def _check_number(schema: Obj, value: float, path: str) -> Iterator[Cause]:
    low, high, step = schema.get("minimum"), schema.get("maximum"), schema.get("multipleOf")
    if low is not None and (value <= low if schema.get("exclusiveMinimum") else value < low):
        word = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
        yield invalid_value(path, value, f"{path} in body should be {word} {shown(low)}")
    if high is not None and (value >= high if schema.get("exclusiveMaximum") else value > high):
        word = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
        yield invalid_value(path, value, f"{path} in body should be {word} {shown(high)}")
    if step and value % step:
        yield invalid_value(path, value, f"{path} in body should be a multiple of {shown(step)}")
