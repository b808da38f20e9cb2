"""Validates names, labels, selectors, taints and tolerations, with the wording of the API server.

Pure; the validators of this package call it. The grammars are those of Kubernetes (RFC 1123 names, qualified names).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from admission.webhook.rules.fields import Errors, FieldPath, forbidden, invalid, not_supported, required, too_long
from api.errors import InvalidQuantity
from api.text.quantity import parse

_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_NAME = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_NAME})?"
_IS_SUBDOMAIN, _IS_NAME, _IS_VALUE = re.compile(_SUBDOMAIN), re.compile(_NAME), re.compile(_VALUE)
_URL_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_IS_URL_PATH = re.compile(_URL_PATH)
SUBDOMAIN_LIMIT: Final = 253
NAME_LIMIT: Final = 63

_SUBDOMAIN_FORM = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and"
    f" end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_NAME_FORM = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
    f" (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME}')"
)
_VALUE_FORM = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is"
    f" '{_VALUE}')"
)
_PATH_FORM = 'must be a domain-prefixed path (such as "acme.io/foo")'

TAINT_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_SELECTOR_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")


def _too_many(limit: int) -> str:
    return f"must be no more than {limit} bytes"


def subdomain_faults(text: str) -> list[str]:
    """Returns why the text is not a DNS subdomain, empty if it is."""
    faults = [_too_many(SUBDOMAIN_LIMIT)] if len(text.encode()) > SUBDOMAIN_LIMIT else []
    return faults if _IS_SUBDOMAIN.fullmatch(text) else [*faults, _SUBDOMAIN_FORM]


def qualified_name_faults(text: str) -> list[str]:
    """Returns why the text is not a label key (`name` or `prefix/name`), empty if it is."""
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        return [
            f"a qualified name {_NAME_FORM} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    faults: list[str] = []
    if slash:
        faults += (
            ["prefix part must be non-empty"] if not prefix else [f"prefix part {f}" for f in subdomain_faults(prefix)]
        )
    if not name:
        return [*faults, "name part must be non-empty", f"name part {_NAME_FORM}"]
    if len(name.encode()) > NAME_LIMIT:
        faults.append(f"name part {_too_many(NAME_LIMIT)}")
    return faults if _IS_NAME.fullmatch(name) else [*faults, f"name part {_NAME_FORM}"]


def label_value_faults(text: str) -> list[str]:
    """Returns why the text is not a label value, empty if it is."""
    faults = [_too_many(NAME_LIMIT)] if len(text.encode()) > NAME_LIMIT else []
    return faults if _IS_VALUE.fullmatch(text) else [*faults, _VALUE_FORM]


def subdomain(field: FieldPath, text: str) -> Errors:
    """Returns the errors of a DNS subdomain."""
    return [invalid(field, text, fault) for fault in subdomain_faults(text)]


def label_name(field: FieldPath, text: str) -> Errors:
    """Returns the errors of a label key."""
    return [invalid(field, text, fault) for fault in qualified_name_faults(text)]


def label_value(field: FieldPath, text: str) -> Errors:
    """Returns the errors of a label's value."""
    return [invalid(field, text, fault) for fault in label_value_faults(text)]


def labels(field: FieldPath, mapping: Mapping[str, str] | None) -> Errors:
    """Returns the errors of a map of labels; each error names the map as its field."""
    errors: Errors = []
    for key, value in (mapping or {}).items():
        errors += [*label_name(field, key), *label_value(field, value)]
    return errors


def annotation_keys(field: FieldPath, mapping: Mapping[str, str] | None) -> Errors:
    """Returns the errors of the keys of annotations: label keys, but case-insensitive."""
    faults = ((key, fault) for key in mapping or {} for fault in qualified_name_faults(key.lower()))
    return [invalid(field, key, fault.replace("a qualified name", "a valid label key", 1)) for key, fault in faults]


def domain_prefixed_path(field: FieldPath, text: str) -> Errors:
    """Returns the errors of a name such as `acme.io/foo`."""
    host, slash, path = text.partition("/")
    if not (host and slash and path):
        return [invalid(field, text, _PATH_FORM)]
    errors = subdomain(field, host)
    if not _IS_URL_PATH.fullmatch(path):
        errors.append(invalid(field, path, f"Invalid path (regex used for validation is '{_URL_PATH}')"))
    return errors


def gate_name(field: FieldPath, text: str) -> Errors:
    """Returns the errors of the name of an admission gate."""
    return [too_long(field, NAME_LIMIT)] if len(text.encode()) > NAME_LIMIT else domain_prefixed_path(field, text)


def not_negative(field: FieldPath, amount: str | int | float | None) -> Errors:
    """Returns the errors of a quantity that must be 0 or more, or that does not parse. None passes."""
    if amount is None:
        return []
    try:
        good = parse(amount) >= 0
    except InvalidQuantity as bad:
        return [invalid(field, amount, bad.allowed)]
    return [] if good else [invalid(field, str(amount), "must be greater than or equal to 0")]


def label_selector(field: FieldPath, selector: Mapping[str, Any] | None) -> Errors:
    """Returns the errors of a label selector. None passes."""
    errors = labels(field.child("matchLabels"), (selector or {}).get("matchLabels"))
    for i, expression in enumerate((selector or {}).get("matchExpressions") or ()):
        errors += _expression(field.child("matchExpressions").item(i), expression)
    return errors


def _expression(field: FieldPath, expression: Mapping[str, Any]) -> Errors:
    operator, values = expression.get("operator", ""), expression.get("values") or ()
    errors: Errors = []
    if operator not in _SELECTOR_OPERATORS:
        errors.append(invalid(field.child("operator"), operator, "not a valid selector operator"))
    elif operator in ("In", "NotIn") and not values:
        errors.append(required(field.child("values"), "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist") and values:
        detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        errors.append(forbidden(field.child("values"), detail))
    errors += label_name(field.child("key"), expression.get("key", ""))
    for i, value in enumerate(values):
        errors += label_value(field.child("values").item(i), value)
    return errors


def taints(field: FieldPath, listed: Sequence[Mapping[str, Any]]) -> Errors:
    """Returns the errors of a list of node taints."""
    errors: Errors = []
    seen: set[tuple[str, str]] = set()
    for i, taint in enumerate(listed):
        at, key, effect = field.item(i), taint.get("key", ""), taint.get("effect", "")
        errors += [*label_name(at.child("key"), key), *label_value(at.child("value"), taint.get("value", ""))]
        if effect not in TAINT_EFFECTS:
            errors.append(not_supported(at.child("effect"), effect, TAINT_EFFECTS))
        if (key, effect) in seen:
            errors.append(invalid(at, dict(taint), "taints must be unique by key and effect pair"))
        seen.add((key, effect))
    return errors


def tolerations(field: FieldPath, listed: Sequence[Mapping[str, Any]]) -> Errors:
    """Returns the errors of a list of tolerations."""
    return [error for i, one in enumerate(listed) for error in _toleration(field.item(i), one)]


def _toleration(field: FieldPath, toleration: Mapping[str, Any]) -> Errors:
    key, operator, effect = (
        toleration.get("key", ""),
        toleration.get("operator", "Equal") or "Equal",
        toleration.get("effect", ""),
    )
    errors = label_name(field.child("key"), key) if key else []
    if not key and operator != "Exists":
        detail = "operator must be Exists when 'key' is empty, which means 'match all values and all keys'"
        errors.append(invalid(field.child("operator"), operator, detail))
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        errors.append(
            invalid(field.child("effect"), effect, "effect must be 'NoExecute' when 'tolerationSeconds' is set")
        )
    if operator not in ("Equal", "Exists"):
        errors.append(not_supported(field.child("operator"), operator, ("Equal", "Exists")))
    elif operator == "Exists" and toleration.get("value"):
        errors.append(
            invalid(field.child("operator"), toleration["value"], "a value must be empty when 'operator' is 'Exists'")
        )
    elif operator == "Equal":
        errors += label_value(field.child("value"), toleration.get("value", ""))
    if effect and effect not in TAINT_EFFECTS:
        errors.append(not_supported(field.child("effect"), effect, TAINT_EFFECTS))
    return errors
