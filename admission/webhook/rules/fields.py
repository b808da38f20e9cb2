"""Field errors as values, in the API server's format: `field: type: value: detail`.

Validators of this package return a list of them, empty for a valid object, and raise nothing. `aggregate` joins the errors of
a review into one message; `cause` makes an entry of status.details.causes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any, Final

from api.errors import InvalidQuantity
from api.text.quantity import parse

IMMUTABLE: Final = "field is immutable"


class OmittedValue(Enum):
    """Leaves a value out of the message because it is too long or meaningless."""

    VALUE = "omitted"


OMIT: Final = OmittedValue.VALUE


class ErrorType(StrEnum):
    """Type of a field error: the value is the API's reason, `text` its wording in messages."""

    NOT_FOUND = "FieldValueNotFound"
    REQUIRED = "FieldValueRequired"
    DUPLICATE = "FieldValueDuplicate"
    INVALID = "FieldValueInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    FORBIDDEN = "FieldValueForbidden"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"

    @property
    def text(self) -> str:
        """Wording in the message, such as `Invalid value`."""
        return _TEXT[self]


_TEXT = {
    ErrorType.NOT_FOUND: "Not found",
    ErrorType.REQUIRED: "Required value",
    ErrorType.DUPLICATE: "Duplicate value",
    ErrorType.INVALID: "Invalid value",
    ErrorType.NOT_SUPPORTED: "Unsupported value",
    ErrorType.FORBIDDEN: "Forbidden",
    ErrorType.TOO_LONG: "Too long",
    ErrorType.TOO_MANY: "Too many",
}
_LONGEST_VALUE: Final = 1024
# Types whose message never shows the value.
_BARE = frozenset((ErrorType.REQUIRED, ErrorType.FORBIDDEN, ErrorType.TOO_LONG))


class FieldPath(str):
    """A field path such as `spec.levels[2].nodeLabel`."""

    __slots__ = ()

    def child(self, *names: str) -> FieldPath:
        """Returns the path of a field below this one."""
        return FieldPath(".".join((self, *names) if self else names))

    def item(self, position: int) -> FieldPath:
        """Returns the path of a list item."""
        return FieldPath(f"{self}[{position}]")

    def key(self, name: str) -> FieldPath:
        """Returns the path of a map entry, or of an item of a list that is keyed by name."""
        return FieldPath(f"{self}[{name}]")


@dataclass(frozen=True, slots=True)
class FieldError:
    """One error of one field."""

    type: ErrorType
    field: str
    bad_value: Any = ""
    detail: str = ""

    @property
    def message(self) -> str:
        """The error as one line: `field: type: value: detail`."""
        parts = [self.field, self.type.text]
        if self.type not in _BARE and self.bad_value is not OMIT:
            parts.append(_shown(self.bad_value))
        if self.detail:
            parts.append(self.detail)
        return ": ".join(parts)

    def cause(self) -> dict[str, str]:
        """Returns an entry of status.details.causes."""
        message = self.message.removeprefix(f"{self.field}: ")
        # msgspec cannot encode FieldPath, a subclass of str.
        return {"reason": self.type.value, "field": str(self.field), "message": message}


Errors = list[FieldError]


def _shown(value: Any) -> str:
    """Returns the value as JSON, cut to `_LONGEST_VALUE` characters so that the message stays readable."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True, default=str)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}... ({len(text)} characters)"


def invalid(field: str, value: Any, detail: str = "") -> FieldError:
    """Returns the error of a value that is not allowed."""
    return FieldError(ErrorType.INVALID, field, value, detail)


def required(field: str, detail: str = "") -> FieldError:
    """Returns the error of a missing value."""
    return FieldError(ErrorType.REQUIRED, field, "", detail)


def forbidden(field: str, detail: str = "") -> FieldError:
    """Returns the error of a field that may not be set, or not be changed now."""
    return FieldError(ErrorType.FORBIDDEN, field, "", detail)


def duplicate(field: str, value: Any) -> FieldError:
    """Returns the error of a value that is already present."""
    return FieldError(ErrorType.DUPLICATE, field, value)


def not_found(field: str, value: Any) -> FieldError:
    """Returns the error of a reference to something that does not exist."""
    return FieldError(ErrorType.NOT_FOUND, field, value)


def not_supported(field: str, value: Any, supported: Sequence[str]) -> FieldError:
    """Returns the error of a value outside `supported`."""
    named = ", ".join(_shown(one) for one in sorted(supported))
    return FieldError(ErrorType.NOT_SUPPORTED, field, value, f"supported values: {named}" if named else "")


def too_long(field: str, limit: int) -> FieldError:
    """Returns the error of a value longer than `limit` bytes."""
    return FieldError(ErrorType.TOO_LONG, field, "<value omitted>", f"may not be more than {limit} bytes")


def too_many(field: str, count: int, limit: int) -> FieldError:
    """Returns the error of a list with more than `limit` items."""
    return FieldError(ErrorType.TOO_MANY, field, count, f"must have at most {limit} items")


def unchanged(field: str, new: Any, old: Any) -> Errors:
    """Returns an error if the value of an immutable field changed."""
    return [] if same(new, old) else [invalid(field, new, IMMUTABLE)]


# Maps with user-defined keys, in which an empty value is significant.
_OWN_KEYS: Final = frozenset(("labels", "annotations", "nodeSelector", "matchLabels", "flavors"))
_AMOUNTS: Final = frozenset(("requests", "limits", "overhead", "resourceUsage"))


def same(first: Any, second: Any) -> bool:
    """Reports whether two values are equal to a Go client.

    Such a client drops empty and zero values when it writes back an object (`omitempty`), and writes quantities in their
    canonical form.
    """
    return bool(first == second or _normalized(first) == _normalized(second))


def _normalized(value: Any, field: str = "") -> Any:
    if isinstance(value, Mapping):
        if field in _OWN_KEYS:
            return dict(value)
        if field in _AMOUNTS:
            return {key: _amount(amount) for key, amount in value.items()}
        items = ((key, _normalized(item, key)) for key, item in value.items())
        return {key: item for key, item in items if item}
    if isinstance(value, list | tuple):
        return [_normalized(item) for item in value]
    return value or None


def _amount(amount: Any) -> Any:
    try:
        return parse(amount)
    except InvalidQuantity:
        return amount


def aggregate(errors: Iterable[FieldError]) -> str:
    """Returns one message for all errors without duplicates: `a`, or `[a, b]`."""
    lines = list(dict.fromkeys(error.message for error in errors))
    return lines[0] if len(lines) == 1 else f"[{', '.join(lines)}]"
