"""Field errors as values, printed as the API server prints its own: `field: type: value: detail`.

Every validator of this package returns a list of them, empty when all is well; nothing is raised. The code that answers a
review joins them into one message (`aggregate`) and lists them as causes (`cause`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any, Final

from api.errors import InvalidQuantity
from api.quantity import parse

IMMUTABLE: Final = "field is immutable"


class OmittedValue(Enum):
    """The value is too large or says nothing: it is left out of the message."""

    VALUE = "omitted"


OMIT: Final = OmittedValue.VALUE


class ErrorType(StrEnum):
    """Reason of a field error: the word of the API, and with `text` the words of the message."""

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
        """As it stands in the message."""
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
        """Fields below this one."""
        return FieldPath(".".join((self, *names) if self else names))

    def item(self, position: int) -> FieldPath:
        """An item of a list."""
        return FieldPath(f"{self}[{position}]")

    def key(self, name: str) -> FieldPath:
        """An entry of a map, or of a list keyed by name."""
        return FieldPath(f"{self}[{name}]")


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing wrong with one field."""

    type: ErrorType
    field: str
    bad_value: Any = ""
    detail: str = ""

    @property
    def message(self) -> str:
        """The whole line."""
        parts = [self.field, self.type.text]
        if self.type not in _BARE and self.bad_value is not OMIT:
            parts.append(_shown(self.bad_value))
        if self.detail:
            parts.append(self.detail)
        return ": ".join(parts)

    def cause(self) -> dict[str, str]:
        """As an entry of status.details.causes."""
        message = self.message.removeprefix(f"{self.field}: ")
        # A plain str: JSON has no FieldPath, which is a str with methods.
        return {"reason": self.type.value, "field": str(self.field), "message": message}


Errors = list[FieldError]


def _shown(value: Any) -> str:
    """As JSON; of a value as long as a book only the beginning, so that the message stays readable."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True, default=str)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}... ({len(text)} characters)"


def invalid(field: str, value: Any, detail: str = "") -> FieldError:
    """The value is not allowed."""
    return FieldError(ErrorType.INVALID, field, value, detail)


def required(field: str, detail: str = "") -> FieldError:
    """A value is missing."""
    return FieldError(ErrorType.REQUIRED, field, "", detail)


def forbidden(field: str, detail: str = "") -> FieldError:
    """The field may not be set here, or not be changed now."""
    return FieldError(ErrorType.FORBIDDEN, field, "", detail)


def duplicate(field: str, value: Any) -> FieldError:
    """The value is there already."""
    return FieldError(ErrorType.DUPLICATE, field, value)


def not_found(field: str, value: Any) -> FieldError:
    """The value names something that is not there."""
    return FieldError(ErrorType.NOT_FOUND, field, value)


def not_supported(field: str, value: Any, supported: Sequence[str]) -> FieldError:
    """The value is none of the few that are allowed."""
    named = ", ".join(_shown(one) for one in sorted(supported))
    return FieldError(ErrorType.NOT_SUPPORTED, field, value, f"supported values: {named}" if named else "")


def too_long(field: str, limit: int) -> FieldError:
    """The value has more than `limit` bytes."""
    return FieldError(ErrorType.TOO_LONG, field, "<value omitted>", f"may not be more than {limit} bytes")


def too_many(field: str, count: int, limit: int) -> FieldError:
    """The list has more than `limit` items."""
    return FieldError(ErrorType.TOO_MANY, field, count, f"must have at most {limit} items")


def unchanged(field: str, new: Any, old: Any) -> Errors:
    """An error when the value of an immutable field differs."""
    return [] if same(new, old) else [invalid(field, new, IMMUTABLE)]


# Maps with keys of the user's choice: an empty value is a value there.
_OWN_KEYS: Final = frozenset(("labels", "annotations", "nodeSelector", "matchLabels", "flavors"))
_AMOUNTS: Final = frozenset(("requests", "limits", "overhead", "resourceUsage"))


def same(one: Any, other: Any) -> bool:
    """Whether two values mean the same to a client in Go.

    What is empty or zero is dropped when such a client writes back what it has read (`omitempty`), and quantities are
    written in their canonical form.
    """
    return bool(one == other or _said(one) == _said(other))


def _said(value: Any, field: str = "") -> Any:
    if isinstance(value, Mapping):
        if field in _OWN_KEYS:
            return dict(value)
        if field in _AMOUNTS:
            return {key: _amount(amount) for key, amount in value.items()}
        items = ((key, _said(item, key)) for key, item in value.items())
        return {key: item for key, item in items if item}
    if isinstance(value, list | tuple):
        return [_said(item) for item in value]
    return value or None


def _amount(given: Any) -> Any:
    try:
        return parse(given)
    except InvalidQuantity:
        return given


def aggregate(errors: Iterable[FieldError]) -> str:
    """One message for all, each line once: `a`, or `[a, b]`."""
    lines = list(dict.fromkeys(error.message for error in errors))
    return lines[0] if len(lines) == 1 else f"[{', '.join(lines)}]"
