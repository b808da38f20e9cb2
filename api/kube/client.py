"""Requests to the API server, one method a verb, decoded straight into the type asked for.

Makes the calls that transport.py sends; knows paths, queries and bodies, but no object's meaning. Informers, reconcilers
and every process use it. A controller that leads uses `kube.fenced(...)`, so that no write leaves a process whose
Lease is not proved.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, Protocol, Self, TypeVar, overload

import msgspec

from api.kube import retry
from api.kube.connection import connect
from api.kube.decode import DECODE_ERRORS, Decoder, decode_around, decode_dict, decoder_for, undecodable
from api.kube.resources import Resource
from api.kube.settings import ClientSettings
from api.kube.stream import WatchEvent
from api.kube.transport import ApiRequest, Fence, Transport
from api.names import FIELD_MANAGER

T = TypeVar("T")


class PatchKind(StrEnum):
    """The kinds of patch; the value is the content type."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class WireObject(Protocol):
    """Anything that knows its JSON form, such as the pydantic types of `api`."""

    def to_wire(self) -> dict[str, Any]:
        """A JSON-ready dict."""


Object = Mapping[str, Any] | WireObject | bytes
"""What can be sent: a dict, a typed object, or JSON."""

Patch = Mapping[str, Any] | Sequence[Any] | WireObject
"""A patch: a map, a list of JSON patch operations, or a typed object to apply."""


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One answer to a list; `continue_` is empty on the last page."""

    items: list[T]
    resource_version: str
    continue_: str = ""
    remaining: int | None = None


class _ListMeta(
    msgspec.Struct, rename={"continue_": "continue", "version": "resourceVersion", "remaining": "remainingItemCount"}
):
    version: str = ""
    continue_: str = ""
    remaining: int | None = None


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


_list_decoder = msgspec.json.Decoder(_List)


def _read_list(data: bytes) -> _List:
    return decode_around(_list_decoder.decode, data)


class Kube:
    """A client of one API server. Make it with `connect`, end it with `close` (or use it as a context manager)."""

    def __init__(self, transport: Transport, fence: Fence | None = None) -> None:
        self._transport, self._fence = transport, fence

    @classmethod
    async def connect(cls, settings: ClientSettings) -> Self:
        """Reads the configuration and prepares the session; sends nothing yet."""
        return cls(Transport(await connect(settings), settings))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the session, also for what `fenced` and `tuned` made of this client."""
        await self._transport.connection.close()

    @property
    def settings(self) -> ClientSettings:
        """What it was made with."""
        return self._transport.settings

    def fenced(self, fence: Fence) -> Self:
        """The same client and limits, that calls `fence` before every write; it raises NotLeader to stop one."""
        return type(self)(self._transport, fence)

    def tuned(self, **changes: Any) -> Self:
        """The same session under changed settings (such as timeout, attempts), with limits of its own."""
        settings = dataclasses.replace(self.settings, **changes)
        return type(self)(Transport(self._transport.connection, settings), self._fence)

    @overload
    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> dict[str, Any]: ...
    @overload
    async def get(
        self, resource: Resource, name: str, namespace: str | None = None, *, decode: type[T] | Decoder[T]
    ) -> T: ...
    async def get(
        self, resource: Resource, name: str, namespace: str | None = None, *, decode: Any = decode_dict
    ) -> Any:
        """One object. Raises NotFound, or InvalidObject when it does not decode."""
        call = ApiRequest("GET", "get", resource.plural, resource.path(namespace, name))
        return _decoded(resource, await self._transport.send(call), decoder_for(decode))

    @overload
    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        limit: int | None = None,
        continue_: str | None = None,
        resource_version: str | None = None,
    ) -> Page[dict[str, Any]]: ...
    @overload
    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        decode: type[T] | Decoder[T],
        label_selector: str | None = None,
        field_selector: str | None = None,
        limit: int | None = None,
        continue_: str | None = None,
        resource_version: str | None = None,
    ) -> Page[T]: ...
    async def list(
        self, resource: Resource, namespace: str | None = None, *, decode: Any = decode_dict, **selection: Any
    ) -> Page[Any]:
        """One page (everything without `limit`). Raises Gone when the continue token is too old."""
        page = await self.list_raw(resource, namespace, **selection)
        decoder = decoder_for(decode)
        items = [_decoded(resource, bytes(raw), decoder) for raw in page.items]
        if decoder is decode_dict:
            for item in items:
                name_kind(resource, item)
        return dataclasses.replace(page, items=items)

    async def list_raw(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        limit: int | None = None,
        continue_: str | None = None,
        resource_version: str | None = None,
    ) -> Page[msgspec.Raw]:
        """One page whose items are not decoded: for callers that go on when one object is bad."""
        query = _query(
            labelSelector=label_selector,
            fieldSelector=field_selector,
            limit=limit,
            resourceVersion=resource_version,
            **{"continue": continue_},
        )
        call = ApiRequest("GET", "list", resource.plural, resource.path(namespace), query)
        answer = _decoded(resource, await self._transport.send(call), _read_list)
        meta = answer.metadata
        return Page(answer.items or [], meta.version, meta.continue_, meta.remaining)

    def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        bookmarks: bool = True,
        timeout_seconds: int | None = None,
        silence: float | None = None,
        initial_events: bool = False,
    ) -> AsyncGenerator[WatchEvent, None]:
        """The events as they come, until the server ends the watch. Use it within `contextlib.aclosing`.

        Raises Gone (410), also when it comes as an ERROR event, Unreachable when the connection breaks or nothing
        comes for `silence` seconds, and the other ApiErrors. Never repeated here: informers know where to resume.
        """
        query = _query(
            watch="true",
            allowWatchBookmarks="true" if bookmarks else None,
            resourceVersion=resource_version,
            labelSelector=label_selector,
            fieldSelector=field_selector,
            timeoutSeconds=timeout_seconds,
            sendInitialEvents="true" if initial_events else None,
            resourceVersionMatch="NotOlderThan" if initial_events else None,
        )
        call = ApiRequest("GET", "watch", resource.plural, resource.path(namespace), query)
        return self._transport.stream(call, silence)

    async def get_path(self, path: str) -> bytes:
        """A path that is no resource, such as `/version` or `/readyz`."""
        return await self._transport.send(ApiRequest("GET", "get", path, path))

    async def create(
        self, resource: Resource, obj: Object, namespace: str | None = None, *, dry_run: bool = False
    ) -> dict[str, Any]:
        """POST, into the object's own namespace unless one is given. Raises AlreadyExists, Invalid, Forbidden."""
        body = _wire(obj)
        meta = body.get("metadata") or {}
        namespace = namespace or meta.get("namespace")
        if resource.namespaced and not namespace:
            raise ValueError(f"create {resource.kind} {meta.get('name')}: metadata.namespace is missing")
        query = _query(fieldManager=FIELD_MANAGER, dryRun="All" if dry_run else None)
        return decode_dict(await self._write("POST", "create", resource, resource.path(namespace), query, body, False))

    async def replace(self, resource: Resource, obj: Object, *, subresource: str | None = None) -> dict[str, Any]:
        """PUT. With a metadata.resourceVersion it raises Conflict when another client wrote first."""
        body = _wire(obj)
        meta = body["metadata"]
        path = resource.path(meta.get("namespace"), meta["name"], subresource)
        repeatable = retry.has_precondition(body)
        query = _query(fieldManager=FIELD_MANAGER)
        return decode_dict(await self._write("PUT", "update", resource, path, query, body, repeatable, subresource))

    @overload
    async def patch(
        self,
        resource: Resource,
        name: str,
        body: Patch,
        namespace: str | None = None,
        *,
        kind: PatchKind,
        subresource: str | None = None,
        field_manager: str | None = None,
        force: bool = False,
        repeatable: bool | None = None,
    ) -> dict[str, Any]: ...
    @overload
    async def patch(
        self,
        resource: Resource,
        name: str,
        body: Patch,
        namespace: str | None = None,
        *,
        decode: type[T] | Decoder[T],
        kind: PatchKind,
        subresource: str | None = None,
        field_manager: str | None = None,
        force: bool = False,
        repeatable: bool | None = None,
    ) -> T: ...
    async def patch(
        self,
        resource: Resource,
        name: str,
        body: Patch,
        namespace: str | None = None,
        *,
        decode: Any = decode_dict,
        kind: PatchKind,
        subresource: str | None = None,
        field_manager: str | None = None,
        force: bool = False,
        repeatable: bool | None = None,
    ) -> Any:
        """PATCH. `repeatable` says that applying it twice is the same as once; None finds out by retry.py's rule."""
        wire = body if isinstance(body, Mapping | Sequence) else body.to_wire()
        if repeatable is None:
            repeatable = kind is PatchKind.APPLY or retry.has_precondition(wire)
        query = _query(fieldManager=field_manager or FIELD_MANAGER, force="true" if force else None)
        path = resource.path(namespace, name, subresource)
        data = await self._write("PATCH", "patch", resource, path, query, wire, repeatable, subresource, kind.value)
        return _decoded(resource, data, decoder_for(decode))

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        propagation: str | None = None,
        uid: str | None = None,
        grace_seconds: int | None = None,
    ) -> None:
        """DELETE. `propagation` is Background, Foreground or Orphan; `uid` spares a successor of the same name."""
        options = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "propagationPolicy": propagation,
            "preconditions": {"uid": uid} if uid else None,
            "gracePeriodSeconds": grace_seconds,
        }
        body = {option: value for option, value in options.items() if value is not None}
        await self._write("DELETE", "delete", resource, resource.path(namespace, name), {}, body, bool(uid))

    async def _write(
        self,
        method: str,
        verb: str,
        resource: Resource,
        path: str,
        query: Mapping[str, str],
        body: Mapping[str, Any] | Sequence[Any],
        repeatable: bool,
        subresource: str | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        label = f"{resource.plural}/{subresource}" if subresource else resource.plural
        data = msgspec.json.encode(body)
        call = ApiRequest(method, verb, label, path, query, data, content_type, repeatable, self._fence)
        return await self._transport.send(call)


def name_kind(resource: Resource, item: Any) -> None:
    """Says in a plain dict what it is: a list of a built-in kind says so only once, for all its items."""
    item.setdefault("apiVersion", resource.api_version)
    item.setdefault("kind", resource.kind)


def _query(**values: str | int | None) -> dict[str, str]:
    return {name: str(value) for name, value in values.items() if value is not None and value != ""}


def _wire(obj: Object) -> Mapping[str, Any]:
    if isinstance(obj, bytes):
        return decode_dict(obj)
    return obj if isinstance(obj, Mapping) else obj.to_wire()


def _decoded(resource: Resource, data: bytes, decoder: Decoder[T]) -> T:
    try:
        return decoder(data)
    except DECODE_ERRORS as error:
        raise undecodable(resource.kind, data, error) from error
