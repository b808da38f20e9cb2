"""Decodes JSON into requested types, and reports which object and field failed.

A decoder is any function of bytes; `decoder_for` returns that of a msgspec struct, a pydantic model or dict. `identity` reads
name, namespace, uid and resourceVersion of a decoded object. The client and the informers call it.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, cast

import msgspec
import pydantic

from api.errors import InvalidObject
from api.meta import object_key
from api.text.untrusted_text import cut

T = TypeVar("T")
Decoder = Callable[[bytes], T]

DECODE_ERRORS = (
    msgspec.MsgspecError,
    pydantic.ValidationError,
    InvalidObject,
    ValueError,
    LookupError,
    TypeError,
    RecursionError,
)
"""Errors that a decoder may raise for a bad object; any other error is a bug and propagates."""

_FIELD = re.compile(r"^(?P<what>.*?)(?: - at `\$\.?(?P<field>.*)`)?$", re.DOTALL)


# Twice the depth that any known kind needs. Parsers recurse and fail at about a thousand.
_DEEPEST: Final = 200
# Random, so that users cannot suppress an object by writing this value into it.
_TOO_DEEP: Final = b'"nested too deep: ' + secrets.token_hex(16).encode() + b'"'


def decode_around(decode: Decoder[T], data: bytes) -> T:
    """Decodes JSON that contains objects of others (a list, a watch event), even if one is nested too deep to parse.

    Such an object is truncated so that its name can be read, and `refuse_cut` reports it.
    """
    try:
        return decode(data)
    except RecursionError:
        return decode(cut(data, _DEEPEST, _TOO_DEEP))


def refuse_cut(data: bytes | msgspec.Raw) -> bytes:
    """Returns the bytes of one object. Raises InvalidObject if `decode_around` has truncated it."""
    given = bytes(data)
    if _TOO_DEEP in given:
        object_identity = raw_identity(given)
        problem = f"must have at most {_DEEPEST} lists and objects within each other"
        raise InvalidObject("$", _excerpt(given), problem, object_identity.key if object_identity else "")
    return given


def decode_dict(data: bytes) -> dict[str, Any]:
    """Decodes to dicts and lists, for kinds without a type (jobs), of which all fields must survive."""
    return cast("dict[str, Any]", msgspec.json.decode(data))


def decoder_for(item_type: type[T] | Decoder[T]) -> Decoder[T]:
    """Returns the decoder of a msgspec struct, a pydantic model or dict; returns a decoder function unchanged."""
    if not isinstance(item_type, type):
        return item_type
    if issubclass(item_type, pydantic.BaseModel):
        return cast("Decoder[T]", item_type.model_validate_json)
    if issubclass(item_type, dict):
        return cast("Decoder[T]", decode_dict)
    return cast("Decoder[T]", msgspec.json.Decoder(item_type).decode)


class ObjectIdentity(msgspec.Struct, frozen=True):
    """The identity of an object."""

    name: str
    namespace: str
    uid: str
    """Empty if its type does not have one."""
    resource_version: str
    """Empty if its type does not have one."""

    @property
    def key(self) -> str:
        """`namespace/name`, or `name` for cluster-scoped objects."""
        return object_key(self.namespace, self.name)


def identity(obj: object) -> ObjectIdentity:
    """Returns the identity of a dict, or of a type with `metadata.name` (and `namespace`, `uid`, `resource_version`)."""
    # Asked three times an event: `isinstance` of an abstract class would cost more than the rest.
    if type(obj) is dict or not hasattr(obj, "metadata"):
        meta = cast("Mapping[str, Any]", obj)["metadata"]
        return ObjectIdentity(
            meta.get("name", ""), meta.get("namespace") or "", meta.get("uid", ""), meta.get("resourceVersion", "")
        )
    meta = cast("Any", obj).metadata
    return ObjectIdentity(
        meta.name,
        getattr(meta, "namespace", None) or "",
        getattr(meta, "uid", None) or "",
        getattr(meta, "resource_version", None) or "",
    )


class _RawMeta(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _RawObject(msgspec.Struct):
    metadata: _RawMeta


_raw_object = msgspec.json.Decoder(_RawObject)


def raw_identity(data: bytes | msgspec.Raw) -> ObjectIdentity | None:
    """Reads the identity from JSON, for objects that do not decode as their type; None if there is none."""
    try:
        meta = decode_around(_raw_object.decode, bytes(data)).metadata
    except msgspec.DecodeError:
        return None
    return ObjectIdentity(meta.name, meta.namespace, meta.uid, meta.resource_version)


def undecodable(kind: str, data: bytes | msgspec.Raw, error: Exception) -> InvalidObject:
    """Returns an error that names object and field for an error that a decoder raised."""
    if isinstance(error, InvalidObject):
        return error  # it names object and field already
    object_identity = raw_identity(data)
    name = f"{kind} {object_identity.key}" if object_identity else kind
    if isinstance(error, pydantic.ValidationError):
        first = error.errors(include_url=False)[0]
        return InvalidObject(_dotted(first["loc"]), first.get("input"), first["msg"], name)
    if isinstance(error, msgspec.DecodeError):
        match = _FIELD.match(str(error))
        what, field = (match["what"], match["field"]) if match else (str(error), None)
        return InvalidObject(field or "$", _value_at(data, field), what, name)
    return InvalidObject("$", _excerpt(bytes(data)), f"{type(error).__name__}: {error}", name)


def _dotted(path: tuple[int | str, ...]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".") or "$"


def _value_at(data: bytes | msgspec.Raw, field: str | None) -> object:
    """Returns the value of the field, if its path is simple (`spec.levels[2].name`), else the start of the object."""
    try:
        value: Any = msgspec.json.decode(data)
        for part in re.findall(r"[^.\[\]]+", field or ""):
            value = value[int(part)] if isinstance(value, list) else value[part]
    except (msgspec.DecodeError, LookupError, TypeError, ValueError, RecursionError):
        return _excerpt(bytes(data))
    return value if field else _excerpt(bytes(data))


def _excerpt(data: bytes) -> str:
    return data[:80].decode(errors="replace")
