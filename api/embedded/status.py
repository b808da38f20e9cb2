"""Errors in the API server's words: code, reason, message and details of a `Status` object.

Contains the texts of all errors that the embedded server returns (in the form of a 1.36 server), not when they occur. Called by
every module of this package.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from api.errors import ApiError

Obj = dict[str, Any]
log = logging.getLogger(__name__)


class NamedKind(Protocol):
    """The fields of a kind that error messages need."""

    @property
    def group(self) -> str: ...
    @property
    def plural(self) -> str: ...
    @property
    def kind(self) -> str: ...


@dataclass(frozen=True, slots=True)
class ResourceRef:
    """The names of a resource, if no ServedKind is at hand."""

    group: str
    plural: str
    kind: str


@dataclass(frozen=True, slots=True)
class Cause:
    """One field error."""

    reason: str
    message: str
    """Does not repeat the field."""
    field: str
    """A path such as `spec.levels[2].nodeLabel`."""

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message

    def body(self) -> Obj:
        return {"reason": self.reason, "message": self.message, "field": self.field}


class StatusError(ApiError):
    """A response other than 2xx. `status` is the HTTP code; `body()` returns the Status object."""

    def __init__(
        self, code: int, reason: str, message: str, details: Obj | None = None, meta: Obj | None = None
    ) -> None:
        super().__init__(code, reason, message)
        self.details = details
        self.meta = meta or {}

    def body(self) -> Obj:
        body: Obj = {"kind": "Status", "apiVersion": "v1", "metadata": self.meta, "status": "Failure"}
        body["message"] = self.message
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        body["code"] = self.status
        return body


def success(kind: NamedKind, name: str, uid: str) -> Obj:
    """Returns the Status of a completed deletion."""
    details = {**_details(kind, name), "uid": uid}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def qualified(kind: NamedKind) -> str:
    """Returns `jobs.batch`, or `pods` for the core group."""
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural


def _details(kind: NamedKind, name: str, *, by_kind: bool = False) -> Obj:
    details: Obj = {"name": name} if name else {}
    if kind.group:
        details["group"] = kind.group
    details["kind"] = kind.kind if by_kind else kind.plural
    return details


def not_found(kind: NamedKind, name: str) -> StatusError:
    return StatusError(404, "NotFound", f'{qualified(kind)} "{name}" not found', _details(kind, name))


def no_such_path() -> StatusError:
    return StatusError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(kind: NamedKind, name: str) -> StatusError:
    return StatusError(409, "AlreadyExists", f'{qualified(kind)} "{name}" already exists', _details(kind, name))


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(kind: NamedKind, name: str, why: str = MODIFIED, subresource: str = "") -> StatusError:
    slash = f"/{subresource}" if subresource else ""
    plural = f"{kind.plural}{slash}.{kind.group}" if kind.group else f"{kind.plural}{slash}"
    details = {**_details(kind, name), "kind": f"{kind.plural}{slash}"}
    return StatusError(409, "Conflict", f'Operation cannot be fulfilled on {plural} "{name}": {why}', details)


def other_object(kind: NamedKind, name: str, why: str) -> StatusError:
    """Returns the error of a deletion's precondition, in which the real server uses the kind instead of the resource."""
    label = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    details = _details(kind, name, by_kind=True)
    return StatusError(409, "Conflict", f'Operation cannot be fulfilled on {label} "{name}": {why}', details)


def apply_conflict(clashes: Sequence[tuple[str, str]]) -> StatusError:
    """Returns the conflict of server-side apply, given (field manager, field path) of each field with another owner."""
    causes = [Cause("FieldManagerConflict", f"conflict with {manager}", field) for manager, field in clashes]
    owners: dict[str, list[str]] = {}
    for manager, field in clashes:
        owners.setdefault(manager, []).append(field)
    if len(clashes) == 1:
        text = f"Apply failed with 1 conflict: conflict with {clashes[0][0]}: {clashes[0][1]}"
    else:
        parts = [
            f"conflict with {manager}: {fields[0]}"
            if len(fields) == 1
            else f"conflicts with {manager}:\n" + "\n".join(f"- {field}" for field in fields)
            for manager, fields in owners.items()
        ]
        text = f"Apply failed with {len(clashes)} conflicts: " + "\n".join(parts)
    return StatusError(409, "Conflict", text, {"causes": [cause.body() for cause in causes]})


def invalid(kind: NamedKind, name: str, causes: Sequence[Cause]) -> StatusError:
    """Returns status 422 with all field errors."""
    unique = list(dict.fromkeys(causes))
    text = str(unique[0]) if len(unique) == 1 else f"[{', '.join(map(str, unique))}]"
    label = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    details = {**_details(kind, name, by_kind=True), "causes": [cause.body() for cause in unique]}
    return StatusError(422, "Invalid", f'{label} "{name}" is invalid: {text}', details)


def invalid_resource(kind: NamedKind, name: str, causes: Sequence[Cause]) -> StatusError:
    """Returns status 422 with the resource in place of the kind, as the real server does for some errors."""
    refusal = invalid(kind, name, causes)
    label = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    details = {**(refusal.details or {}), "kind": kind.plural}
    return StatusError(422, "Invalid", refusal.message.replace(label, qualified(kind), 1), details)


def forbidden(kind: NamedKind, name: str, why: str, causes: Sequence[Cause] = ()) -> StatusError:
    details = _details(kind, name)
    if causes:
        details["causes"] = [cause.body() for cause in causes]
    return StatusError(403, "Forbidden", f'{qualified(kind)} "{name}" is forbidden: {why}', details)


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def unauthorized() -> StatusError:
    return StatusError(401, "Unauthorized", "Unauthorized")


def not_allowed() -> StatusError:
    return StatusError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def unsupported_media(accepted: Sequence[str]) -> StatusError:
    text = "the body of the request was in an unknown format - accepted media types include: " + ", ".join(accepted)
    return StatusError(415, "UnsupportedMediaType", text)


def unprocessable(message: str) -> StatusError:
    """Returns the error of a JSON patch that does not apply to the object."""
    log.debug("unprocessable: %s", message)  # the real server does not tell clients either
    return StatusError(422, "Invalid", "the server rejected our request due to an error in our request", {})


def expired(message: str, continue_: str = "") -> StatusError:
    return StatusError(410, "Expired", message, None, {"continue": continue_} if continue_ else None)


def internal(message: str) -> StatusError:
    text = f"Internal error occurred: {message}"
    return StatusError(500, "InternalError", text, {"causes": [{"message": message}]})


def shown(value: object) -> str:
    """Formats a value as field errors do: strings in quotes, other values as JSON."""
    return msgspec.json.encode(value).decode() if value is not None else "null"


def invalid_value(field: str, value: object, why: str) -> Cause:
    return Cause("FieldValueInvalid", f"Invalid value: {shown(value)}: {why}", field)


def immutable(field: str, value: object) -> Cause:
    return invalid_value(field, value, "field is immutable")


def required(field: str, why: str = "") -> Cause:
    return Cause("FieldValueRequired", f"Required value: {why}" if why else "Required value", field)


def forbidden_field(field: str, why: str) -> Cause:
    return Cause("FieldValueForbidden", f"Forbidden: {why}", field)


def duplicate(field: str, value: object) -> Cause:
    return Cause("FieldValueDuplicate", f"Duplicate value: {shown(value)}", field)


def unsupported(field: str, value: object, allowed: Sequence[object]) -> Cause:
    text = ", ".join(shown(item) for item in allowed)
    return Cause("FieldValueNotSupported", f"Unsupported value: {shown(value)}: supported values: {text}", field)
