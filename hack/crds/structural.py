"""Converts a pydantic type to a structural OpenAPI schema: no references, no unions with null, every level typed.

Called by `manifest`. The types declare the content.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from api.schema import DEFAULT, MANDATORY, Schema

# Keywords that the API server supports and that are copied.
_PLAIN = (
    "type", "description", "format", "pattern", "enum", "anyOf", "minLength", "maxLength", "minimum", "maximum",
    "minItems", "maxItems", "minProperties", "maxProperties",
)  # fmt: skip
_EXTENSION = "x-kubernetes-"
_OPEN = f"{_EXTENSION}preserve-unknown-fields"


def structural(model: type[BaseModel]) -> Schema:
    """Returns the schema of a type, with JSON field names."""
    document = model.model_json_schema(by_alias=True)
    return _convert(document, document.get("$defs", {}))


def _convert(node: Schema, defs: dict[str, Schema]) -> Schema:
    node = _flatten(node, defs)
    out = {word: node[word] for word in _PLAIN if node.get(word) is not None}
    out |= {word: value for word, value in node.items() if word.startswith(_EXTENSION)}
    if "description" in out:
        out["description"] = " ".join(out["description"].split())
    if out.get("type") == "integer":
        out.setdefault("format", "int64")
    default = node.get(DEFAULT, node.get("default") or None)
    if default is not None:
        out["default"] = default
    return out | _children(node, defs)


def _flatten(node: Schema, defs: dict[str, Schema]) -> Schema:
    """Resolves references and unions with null; outer keywords take precedence over inner ones."""
    while True:
        if "$ref" in node:
            inner = defs[node["$ref"].rsplit("/", 1)[-1]]
            outer = {word: value for word, value in node.items() if word != "$ref"}
        elif {"type": "null"} in node.get("anyOf", ()):
            (inner,) = (member for member in node["anyOf"] if member != {"type": "null"})
            outer = {word: value for word, value in node.items() if word != "anyOf"}
        else:
            return node
        node = inner | outer


def _children(node: Schema, defs: dict[str, Schema]) -> Schema:
    out: Schema = {}
    if "items" in node:
        out["items"] = _convert(node["items"], defs)
    if "properties" in node:
        out["properties"] = {name: _convert(child, defs) for name, child in node["properties"].items()}
        required = {*node.get("required", ()), *_lifted(node["properties"])}
        if required:
            out["required"] = sorted(required)
    elif isinstance(node.get("additionalProperties"), dict):
        out["additionalProperties"] = _convert(node["additionalProperties"], defs)
    elif node.get("type") == "object":
        out[_OPEN] = True
    return out


def _lifted(properties: dict[str, Any]) -> set[str]:
    """Returns the names of fields that declare themselves mandatory."""
    return {name for name, child in properties.items() if child.get(MANDATORY)}
