"""Converts an explanation to plain data for JSON, with field names in camelCase and the kind of each change by name.

The keys are the fields of explanation.py and changes.py. They are stable, but fields may be added. Amounts are quantities in
the API's form.
"""

from __future__ import annotations

from dataclasses import fields
from enum import Enum
from typing import TYPE_CHECKING, Any

from admission.engine.decision import Certificate
from admission.engine.expected_start import rfc3339
from admission.engine.explain.changes import (
    CoverResource,
    LowerRequest,
    RaiseQuota,
    Remedy,
    RequestResource,
)
from admission.engine.explain.explanation import (
    Explanation,
    QuotaView,
    Shortage,
)
from admission.engine.explain.wording import headline, remedy_text
from admission.engine.model import Taint, to_text

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_AMOUNTS = {
    Shortage: ("asked", "free", "short"),
    QuotaView: ("asked", "nominal", "available", "most", "short"),
    LowerRequest: ("asked", "fits"),
    RequestResource: ("least",),
    RaiseQuota: ("by", "nominal"),
    CoverResource: ("nominal",),
}
"""The fields that are amounts of the value's own `resource`; amounts in its takers and users are converted too."""

_MOMENTS = ("starts", "start")
"""The fields that are epoch seconds, which are written as RFC 3339."""


def to_wire(explanation: Explanation) -> dict[str, Any]:
    """Returns the explanation with its reason codes, its headline, and the text of each remedy."""
    record = _record(explanation, None)
    record["codes"] = [str(code) for code in explanation.codes]
    record["headline"] = headline(explanation)
    return record


def _record(value: DataclassInstance, resource: str | None) -> dict[str, Any]:
    resource = getattr(value, "resource", resource)
    amounts = _AMOUNTS.get(type(value), ("amount", "borrowed"))
    record: dict[str, Any] = {}
    for field in fields(value):
        item = getattr(value, field.name)
        if field.name == "daemons":
            record["daemons"] = {name: to_text(name, amount) for name, amount in item}
        elif field.name in _MOMENTS:
            record[_camel(field.name)] = None if item is None else rfc3339(item)
        elif resource is not None and field.name in amounts:
            record[_camel(field.name)] = to_text(resource, item)
        else:
            record[_camel(field.name)] = _plain(item, resource)
    if isinstance(value, Certificate):
        record["text"] = value.text
    if isinstance(value, Remedy):
        record["changes"] = [{"kind": type(change).__name__, **_record(change, None)} for change in value.changes]
        record["text"] = remedy_text(value)
    return record


def _plain(item: Any, resource: str | None) -> Any:
    if isinstance(item, Enum):
        return str(item)
    if isinstance(item, Taint):
        return {"key": item.key, "value": item.value, "effect": item.effect}
    if isinstance(item, tuple):
        return [_plain(one, resource) for one in item]
    return _record(item, resource) if hasattr(item, "__dataclass_fields__") else item


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
