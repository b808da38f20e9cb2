"""The client of the API server: one method per verb, with responses decoded into the requested type.

Builds requests, which transport.py sends; knows paths, queries and bodies, but not the meaning of objects. Informers,
reconcilers and all processes use it. A leading controller uses `kube.fenced(...)`, so that no write leaves a process that has
not proved its Lease.
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
from api.kube.served import ServedVersions
from api.kube.settings import ClientSettings
from api.kube.stream import WatchEvent
from api.kube.transport import ApiRequest, Fence, Transport
from api.names import FIELD_MANAGER

T = TypeVar("T")


class PatchKind(StrEnum):
    """The kinds of patches; the value is the content type."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class WireObject(Protocol):
    """An object with a JSON form, such as the pydantic types of `api`."""

    def to_wire(self) -> dict[str, Any]:
        """Returns a JSON-ready dict."""


Object = Mapping[str, Any] | WireObject | bytes
"""An object to send: a dict, a typed object, or JSON."""

Patch = Mapping[str, Any] | Sequence[Any] | WireObject
"""A patch: a dict, a list of JSON patch operations, or a typed object to apply."""


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list; `continue_` is empty on the last page."""

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
    """A client of one API server. Create it with `connect`; close it with `close` or as a context manager.

    `served` tells which API versions there are.
    """

    def __init__(self, transport: Transport, fence: Fence | None = None, served: ServedVersions | None = None) -> None:
        self._transport, self._fence = transport, fence
        self.served = ServedVersions(self.get_path) if served is None else served

    @classmethod
    async def connect(cls, settings: ClientSettings) -> Self:
        """Loads the configuration and prepares the session, without sending a request. Raises InvalidObject or OSError."""
        return cls(Transport(await connect(settings), settings))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the session, also for clients that `fenced` and `tuned` returned."""
        await self._transport.connection.close()

    @property
    def settings(self) -> ClientSettings:
        """The settings of this client."""
        return self._transport.settings

    def fenced(self, fence: Fence) -> Self:
        """Returns a client with the same session and limits that calls `fence` before each write (it may raise NotLeader)."""
        return type(self)(self._transport, fence, self.served)

    def tuned(self, **changes: Any) -> Self:
        """Returns a client with the same session, changed settings (such as timeout, attempts) and separate limits."""
        settings = dataclasses.replace(self.settings, **changes)
        return type(self)(Transport(self._transport.connection, settings), self._fence, self.served)

    @overload
    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> dict[str, Any]: ...
    @overload
    async def get(
        self, resource: Resource, name: str, namespace: str | None = None, *, decode: type[T] | Decoder[T]
    ) -> T: ...
    async def get(
        self, resource: Resource, name: str, namespace: str | None = None, *, decode: Any = decode_dict
    ) -> Any:
        """Returns one object. Raises NotFound, InvalidObject if it does not decode, or another ApiError."""
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
        """Returns one page, or the whole list without `limit`. Raises Gone if the continue token is too old."""
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
        """Returns one page with undecoded items, for callers that continue past a bad object."""
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
        """Yields the events of a watch until the server ends it. Use it within `contextlib.aclosing`.

        Raises Gone (410), also for an ERROR event; Unreachable if the connection breaks or is silent for `silence` seconds; and
        other ApiErrors. Never retried here, because only informers know where to resume.
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
        """Returns the body of a path that is not a resource, such as `/version` or `/readyz`."""
        return await self._transport.send(ApiRequest("GET", "get", path, path))

    async def create(
        self, resource: Resource, obj: Object, namespace: str | None = None, *, dry_run: bool = False
    ) -> dict[str, Any]:
        """Creates an object, in its own namespace unless one is given. Raises AlreadyExists, Invalid, Forbidden."""
        body = _wire(obj)
        meta = body.get("metadata") or {}
        namespace = namespace or meta.get("namespace")
        if resource.namespaced and not namespace:
            raise ValueError(f"create {resource.kind} {meta.get('name')}: metadata.namespace is missing")
        query = _query(fieldManager=FIELD_MANAGER, dryRun="All" if dry_run else None)
        return decode_dict(await self._write("POST", "create", resource, resource.path(namespace), query, body, False))

    async def replace(self, resource: Resource, obj: Object, *, subresource: str | None = None) -> dict[str, Any]:
        """Replaces an object. With a metadata.resourceVersion it raises Conflict if another client wrote first."""
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
        """Patches an object. `repeatable` says that applying it twice equals once; None applies the rule of retry.py."""
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
        """Deletes an object. `propagation` is Background, Foreground or Orphan; `uid` protects a successor of the same name."""
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
    """Sets apiVersion and kind in a list item in place: lists of built-in kinds omit them on items."""
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
