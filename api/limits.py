"""Checks a decoded object against the types and limits that its type declares for the CRD (api/schema.py). Pure.

For objects that no API server has validated, such as files. Each error names the field, its value and what is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from pydantic import BaseModel

from api.errors import InvalidObject
from api.schema import MANDATORY, Schema

_TYPES: Final[Mapping[str, tuple[type, str]]] = {
    "object": (dict, "must be a map"),
    "array": (list, "must be a list"),
    "string": (str, "must be a text"),
    "boolean": (bool, "must be true or false"),
    "integer": (int, "must be a whole number"),
}
_INT32: Final = 2**31 - 1
_Found = tuple[str, Any, Schema]


def type_errors(model: type[BaseModel], value: Any, at: str) -> list[InvalidObject]:
    """Returns an error for each field that has another type than the model's."""
    return [
        InvalidObject(where, part, _TYPES[schema["type"]][1])
        for where, part, schema in _fields(model, value, at)
        if not _has_type(part, schema)
    ]


def limit_errors(model: type[BaseModel], value: Any, at: str) -> list[InvalidObject]:
    """Returns an error for each missing field, and each that is too long, too large, too many or of another form."""
    return [error for field in _fields(model, value, at) if _has_type(*field[1:]) for error in _beyond(*field)]


@lru_cache(maxsize=8)
def _schema(model: type[BaseModel]) -> Schema:
    return model.model_json_schema(by_alias=True)


def _fields(model: type[BaseModel], value: Any, at: str) -> Iterator[_Found]:
    """Yields path, value and schema of the value and of each known field in it; null counts as unset."""
    root = _schema(model)
    yield from _walk(root, value, at, root.get("$defs", {}))


def _walk(schema: Schema, value: Any, at: str, types: Mapping[str, Schema]) -> Iterator[_Found]:
    schema = _resolved(schema, types)
    yield at, value, schema
    if isinstance(value, list) and "items" in schema:
        for number, item in enumerate(value[: schema.get("maxItems", len(value))]):
            yield from _walk(schema["items"], item, f"{at}[{number}]", types)
    elif isinstance(value, dict):
        known = schema.get("properties", {})
        others = schema.get("additionalProperties")
        for name, item in value.items():
            inner = known.get(name, others if isinstance(others, dict) else None)
            if inner is not None and item is not None:
                yield from _walk(inner, item, f"{at}.{name}", types)


def _resolved(schema: Schema, types: Mapping[str, Schema]) -> Schema:
    """Returns the schema without references and without unions with null."""
    members = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    inner = members[0] if len(members) == 1 else None
    if "$ref" in schema:
        inner = types[schema["$ref"].rpartition("/")[2]]
    return (
        schema
        if inner is None
        else {**_resolved(inner, types), **{k: v for k, v in schema.items() if k not in ("$ref", "anyOf")}}
    )


def _has_type(value: Any, schema: Schema) -> bool:
    wanted = _TYPES.get(schema.get("type", ""))
    if wanted is None:
        return True
    return isinstance(value, wanted[0]) and (wanted[0] is not int or not isinstance(value, bool))


def _beyond(at: str, value: Any, schema: Schema) -> Iterator[InvalidObject]:
    size = len(value) if isinstance(value, str | list) else 0
    kind, unit = ("Items", "entries") if isinstance(value, list) else ("Length", "characters")
    least, most = schema.get(f"min{kind}", 0), schema.get(f"max{kind}")
    if size < least:
        yield InvalidObject(at, value, f"must have at least {least} {unit}")
    if most is not None and size > most:
        yield InvalidObject(at, value, f"must have at most {most} {unit}")
    elif isinstance(value, str) and not re.fullmatch(schema.get("pattern", ".*").removesuffix("$"), value, re.DOTALL):
        yield InvalidObject(at, value, f"must match {schema['pattern']}")
    if (
        isinstance(value, int)
        and schema.get("format") == "int32"
        and not schema.get("minimum", -_INT32) <= value <= _INT32
    ):
        yield InvalidObject(at, value, f"must be from {schema.get('minimum', -_INT32)} to {_INT32}")
    if isinstance(value, dict):
        for name, inner in schema.get("properties", {}).items():
            if inner.get(MANDATORY) and value.get(name) is None:
                yield InvalidObject(f"{at}.{name}", None, "must be set")
