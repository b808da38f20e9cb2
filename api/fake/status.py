"""Refusals in the API server's own words: code, reason, message and details of a `Status` object.

Holds the wording of every error that the embedded server can answer (copied in form from a 1.36 server) and nothing of
when it is due. Called by every module of this package.
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
    """The part of a kind that an error message needs."""

    @property
    def group(self) -> str: ...
    @property
    def plural(self) -> str: ...
    @property
    def kind(self) -> str: ...


@dataclass(frozen=True, slots=True)
class ResourceRef:
    """The least that can be named, where there is no Kind at hand."""

    group: str
    plural: str
    kind: str


@dataclass(frozen=True, slots=True)
class Cause:
    """One field error: `field` is a path such as `spec.levels[2].nodeLabel`; `message` leaves the field out."""

    reason: str
    message: str
    field: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message

    def body(self) -> Obj:
        return {"reason": self.reason, "message": self.message, "field": self.field}


class StatusError(ApiError):
    """An answer other than 2xx. `status` is the HTTP code; `body()` is the Status object that goes over the wire."""

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
    """Returns the Status of a deletion that is done."""
    details = {**_details(kind, name), "uid": uid}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def qualified(kind: NamedKind) -> str:
    """`jobs.batch`, or `pods` in the core group."""
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
    """A failed precondition of a deletion, which the real server words with the kind instead of the resource."""
    label = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    details = _details(kind, name, by_kind=True)
    return StatusError(409, "Conflict", f'Operation cannot be fulfilled on {label} "{name}": {why}', details)


def apply_conflict(clashes: Sequence[tuple[str, str]]) -> StatusError:
    """Server-side apply: (field manager, field path) for each field that another manager owns."""
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
    """422 with every field error."""
    unique = list(dict.fromkeys(causes))
    text = str(unique[0]) if len(unique) == 1 else f"[{', '.join(map(str, unique))}]"
    label = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    details = {**_details(kind, name, by_kind=True), "causes": [cause.body() for cause in unique]}
    return StatusError(422, "Invalid", f'{label} "{name}" is invalid: {text}', details)


def invalid_resource(kind: NamedKind, name: str, causes: Sequence[Cause]) -> StatusError:
    """The same where the real server puts the resource in the kind's place."""
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
    """Returns a JSON patch that does not fit the object."""
    log.debug("unprocessable: %s", message)  # the real server keeps it to itself, too
    return StatusError(422, "Invalid", "the server rejected our request due to an error in our request", {})


def expired(message: str, continue_: str = "") -> StatusError:
    return StatusError(410, "Expired", message, None, {"continue": continue_} if continue_ else None)


def internal(message: str) -> StatusError:
    text = f"Internal error occurred: {message}"
    return StatusError(500, "InternalError", text, {"causes": [{"message": message}]})


def shown(value: object) -> str:
    """Returns a value as field errors print it: quoted strings, JSON for the rest."""
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
