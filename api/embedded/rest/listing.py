"""Lists over HTTP: selectors, consistent pages, and continue tokens.

A token has the resourceVersion of its first page; later pages show the state at that version, rebuilt from the event history.
If the history no longer covers it, the response is 410 with a token for an inconsistent rest. Called by http.py.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

import msgspec

from api.embedded.request import RequestTarget
from api.embedded.rest import routes
from api.embedded.selectors import Filter
from api.embedded.status import Obj, StatusError, bad_request, expired
from api.embedded.store import ObjectStorage
from api.embedded.table import StoredObject

_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


@dataclass(frozen=True, slots=True)
class _Token:
    rv: int  # -1: from now on, inconsistent
    start: str  # the last key that was shown

    def text(self) -> str:
        body = msgspec.json.encode({"v": "meta.k8s.io/v1", "rv": self.rv, "start": self.start + "\0"})
        return base64.urlsafe_b64encode(body).rstrip(b"=").decode()


def _token(text: str) -> _Token:
    try:
        body = msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        return _Token(int(body["rv"]), str(body["start"]).rstrip("\0"))
    except (binascii.Error, msgspec.DecodeError, KeyError, TypeError, ValueError) as error:
        raise bad_request(f"continue key is not valid: {error}") from error


def too_large(requested: int, current: int) -> StatusError:
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    text = f"Timeout: Too large resource version: {requested}, current: {current}"
    return StatusError(504, "Timeout", text, {"causes": [cause], "retryAfterSeconds": 1})


def list_bytes(store: ObjectStorage, target: RequestTarget, query: Mapping[str, str]) -> bytes:
    """Returns the body of a list response."""
    wanted = store.filter(target.kind, query.get("labelSelector", ""), query.get("fieldSelector", ""))
    token = _token(query["continue"]) if query.get("continue") else None
    rv, after = _position(store, target, query, token)
    page, meta = _page(store, target, wanted, rv, after, routes.number(query, "limit") or 0)
    return encode(target, page, meta)


def _position(
    store: ObjectStorage, target: RequestTarget, query: Mapping[str, str], token: _Token | None
) -> tuple[int, str]:
    """Returns the resourceVersion of the list, and the key after which it starts."""
    current, floor = store.resource_version, store.table(target.kind).floor
    if token is not None:
        if 0 <= token.rv < floor:
            raise expired(_TOO_OLD, _Token(-1, token.start).text())
        return (current if token.rv < 0 else token.rv), token.start
    requested = routes.version(query)
    if requested is not None and requested > current:
        raise too_large(requested, current)
    if query.get("resourceVersionMatch") == "Exact" and requested:
        if requested < floor:
            raise expired("The resourceVersion for the provided list is too old.")
        return requested, ""
    return current, ""


def _page(
    store: ObjectStorage, target: RequestTarget, wanted: Filter, rv: int, after: str, limit: int
) -> tuple[list[StoredObject], Obj]:
    """Returns at most `limit` records (0: all) and the list's metadata."""
    keys, record_at = store.table(target.kind).at(rv, target.namespace, after)
    records = map(record_at, keys)
    matching = filter(lambda record: wanted.matches(record.obj), records) if wanted else records
    meta: Obj = {"resourceVersion": str(rv)}
    if not limit:
        return list(matching), meta
    page = list(islice(matching, limit))
    if next(matching, None) is not None:
        meta["continue"] = _Token(rv, page[-1].key).text()
        if not wanted:  # with a selector the real server does not count the remaining items either
            meta["remainingItemCount"] = len(keys) - limit
    return page, meta


def encode(target: RequestTarget, page: list[StoredObject], meta: Obj) -> bytes:
    """Returns a List object as JSON. Items of built-in kinds omit their type, as on the real server."""
    kind, version = target.kind, target.kind.in_version(target.version)
    items = [item.typed(kind.kind, version) for item in page] if kind.custom else [item.body for item in page]
    head = msgspec.json.encode({"kind": f"{kind.kind}List", "apiVersion": version, "metadata": meta})
    return b'%b,"items":[%b]}' % (head[:-1], b",".join(items))
