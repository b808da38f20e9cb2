"""Keeps a local, current copy of one resource by list and watch, and recovers from all failures.

One task (`run`) repeats:

1. list in pages (or stream the first list through the watch), and pass the differences to the handlers;
2. watch from the list's resourceVersion, with bookmarks that keep that version recent;
3. when the watch ends, breaks or falls silent: wait briefly, and watch from the last version seen;
4. when the version is too old (410) or attempts keep failing: return to 1.

An object that does not decode is logged with its name and field and left out (its last good state stays). An exception of a
handler is logged. Neither stops the watch. Controllers read `objects` and react in handlers; they never list.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import aclosing
from typing import Any, Generic, TypeVar, cast

import msgspec

from api.errors import ApiError, BadRequest, Forbidden, Gone, Invalid, StowageError
from api.kube import metrics
from api.kube.backoff import Backoff
from api.kube.client import Kube, Page, name_kind
from api.kube.clock import SYSTEM, Clock
from api.kube.decode import Decoder, decode_dict, decoder_for, identity, raw_identity, refuse_cut, undecodable
from api.kube.informers.store import Change, ChangeType, Store
from api.kube.informers.watch_lag import OwnWrites
from api.kube.resources import EVENTS, Resource
from api.kube.settings import InformerSettings
from api.kube.stream import BOOKMARK, WatchEvent
from api.kube.turns import Turns

T = TypeVar("T")
log = logging.getLogger(__name__)

# A watch that the server ends orderly after so many seconds counts as a success, even without events.
_QUIET = 1.0
_LARGER = 10
"""So many times larger are the pages of a list after one whose continue token expired. A page's body is read in one step."""
_WITHOUT_BOOKMARKS = (EVENTS,)
"""Kinds that API servers keep in no cache, from which bookmarks come: a watch of these is quiet while nothing happens."""
_INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class _BookmarkMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


class _Bookmark(msgspec.Struct):
    metadata: _BookmarkMeta


_bookmark_decoder = msgspec.json.Decoder(_Bookmark)


class Informer(Generic[T]):
    """An informer; see the module. `item_type` is a msgspec struct, a pydantic model, dict, or a decoder function."""

    def __init__(
        self,
        kube: Kube,
        resource: Resource,
        item_type: type[T] | Decoder[T],
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        settings: InformerSettings | None = None,
        clock: Clock = SYSTEM,
    ) -> None:
        self.resource = resource
        self.last_error: StowageError | None = None
        self._kube, self._clock = kube, clock
        self._settings = settings or kube.settings.informers
        self._selection: dict[str, Any] = {
            "namespace": namespace,
            "label_selector": label_selector,
            "field_selector": field_selector,
        }
        self._decoder = decoder_for(item_type)
        self._plain = self._decoder is decode_dict
        selection = " ".join(filter(None, (namespace, label_selector, field_selector)))
        self._store: Store[T] = Store(resource.plural, selection)
        self._writes = OwnWrites(metrics.WATCH_LAG.labels(resource.plural), clock)
        self._has_bookmarks = resource not in _WITHOUT_BOOKMARKS
        self._heard_at = 0.0
        self._last_version = ""  # as `_version`, but never forgotten
        metrics.asked(metrics.INFORMER_HEARD.labels(resource.plural, selection), self, Informer._heard)
        metrics.asked(metrics.INFORMER_VERSION.labels(resource.plural, selection), self, Informer._progress)
        # From 0: where a series begins with its first event, Prometheus sees no increase.
        metrics.INFORMER_UNDECODABLE.labels(resource.plural)
        self._backoff = Backoff(self._settings.backoff_base, self._settings.backoff_max)
        self._synced = asyncio.Event()
        self._version = ""
        self._failures = 0
        self._watch_list = self._settings.watch_list
        self._initial: dict[str, T] | None = None
        self._refreshes = self._answered = 0  # requested; and answered by a complete list
        self._refreshed = asyncio.Condition()
        self._pause: asyncio.Timeout | None = None
        self._observes = False

    @property
    def objects(self) -> Mapping[str, T]:
        """The copy by key, as a live view."""
        return self._store.objects

    @property
    def has_synced(self) -> bool:
        """Reports whether `objects` holds the first list and handlers have received it."""
        return self._synced.is_set()

    @property
    def is_settled(self) -> bool:
        """Reports whether a process may be ready without waiting for this informer."""
        return self.has_synced

    @property
    def selects_by_field(self) -> bool:
        """Reports whether objects leave the copy, as DELETED, while they still exist: their fields change often."""
        return bool(self._selection["field_selector"])

    def add_handler(self, fn: Callable[[Change[T]], None]) -> None:
        """Adds a handler, called synchronously and in order. It receives known objects as ADDED at once."""
        self._store.add_handler(fn)

    def add_index(self, name: str, fn: Callable[[T], Iterable[str]]) -> None:
        """Indexes the objects by the values that `fn` returns for each."""
        self._store.add_index(name, fn)

    def file_again(self, name: str, key: str) -> None:
        """Indexes the object of the key again, after the values that the index's function returns for it changed."""
        self._store.file_again(name, key)

    def by_index(self, name: str, value: str) -> list[T]:
        """Returns the objects with that value in the index."""
        return self._store.by_index(name, value)

    def filed(self, name: str, value: str) -> Iterator[T]:
        """Yields these objects one by one, for callers that need few of many. Valid until the next await."""
        return self._store.filed(name, value)

    def count(self, name: str, value: str) -> int:
        """Returns the number of objects with that value in the index."""
        return self._store.count(name, value)

    def observe(self, obj: T) -> None:
        """Stores the response of a write as if the watch had delivered it; handlers receive it at once."""
        self._observes = True
        written = identity(obj)
        if not self._store.holds(written):
            self._writes.written(written.key, written.resource_version)
        self._store.observe(obj)

    def upsert(self, obj: T) -> None:
        """Adds an object that the API server does not have, for a copy of the process that asks what it would change."""
        self._store.upsert(obj)

    async def synced(self, timeout: float) -> None:  # noqa: ASYNC109 - its error says what is wrong
        """Waits for the first list. Raises TimeoutError with the resource and the last error."""
        try:
            async with asyncio.timeout(timeout):
                await self._synced.wait()
        except TimeoutError:
            why = f": {self.last_error}" if self.last_error else ""
            raise TimeoutError(f"{self.resource.plural}: not listed within {timeout} s{why}") from None

    async def refresh(self) -> None:
        """Lists at once, and returns when the copy is at least as new as the API server was at the call.

        For a process that takes over from another and must see that process's last writes before it decides.
        """
        self._refreshes += 1
        mine = self._refreshes
        if self._pause is not None and not self._pause.expired():
            self._pause.reschedule(asyncio.get_running_loop().time())
        async with self._refreshed:
            await self._refreshed.wait_for(lambda: self._answered >= mine)

    async def run(self) -> None:
        """Lists and watches until cancelled."""
        while True:
            try:
                async with asyncio.timeout(None) as self._pause:
                    pause = await self._attempt()
                    # Also after an orderly end, so that a server that ends every watch at once is not flooded.
                    await self._clock.sleep(pause)
            except TimeoutError:  # a refresh interrupts the pause
                self._version = ""

    async def _attempt(self) -> float:
        """Makes one round and returns the seconds to wait before the next."""
        retry_after = 0.0
        try:
            await self._round()
        except StowageError as error:
            self._note(error)
            retry_after = error.retry_after or 0.0 if isinstance(error, ApiError) else 0.0
        return max(self._backoff.delay(self._failures), retry_after)

    async def _round(self) -> None:
        """Lists if needed, then watches until the watch ends."""
        refreshes = self._refreshes
        self._failures += 1  # reset by the first event of the watch
        self._initial = {} if not self._version and self._watch_list else None
        if not self._version and self._initial is None:
            await self._relist(refreshes)
        started = self._clock.now()
        watch = self._kube.watch(
            self.resource,
            resource_version=self._version,
            timeout_seconds=self._lasts(),
            silence=self._settings.silence,
            initial_events=self._initial is not None,
            **self._selection,
        )
        turns = Turns()
        async with aclosing(watch) as events:
            async for event in events:  # those that arrived together come without a pause between them
                self._failures = 0
                if event.type == BOOKMARK:
                    await self._bookmark(event.object, refreshes)
                elif self._initial is not None:
                    self._gather(self._initial, event)
                else:
                    self._apply(event)
                if turns.is_over:
                    await turns.give_way()
        if not self._has_bookmarks:
            self._heard_at = time.time()  # the server has ended it: all that is heard of a quiet kind
        if self._clock.now() - started > _QUIET:
            self._failures = 0

    def _lasts(self) -> int:
        """Returns the seconds after which the server ends a watch; without bookmarks that is before it seems dead."""
        least, most = self._settings.watch_min, self._settings.watch_max
        if not self._has_bookmarks:
            most = min(most, 0.8 * self._settings.silence)
            least = min(least, most / 2)
        return max(1, int(random.uniform(least, most)))  # noqa: S311 - spread

    def _note(self, error: StowageError) -> None:
        """Records a failure, and decides whether the next round must list."""
        self.last_error = error
        self._failures = max(self._failures, 1)  # 0 if the broken watch had delivered events
        metrics.INFORMER_FAILURES.labels(self.resource.plural, type(error).__name__).inc()
        if self._initial is not None and isinstance(error, BadRequest | Forbidden | Invalid):
            self._watch_list = False
        if isinstance(error, Gone) or self._failures >= self._settings.relist_after:
            self._version = ""
        # Broken connections are normal; a refusal or a long silence deserves a warning.
        expected = isinstance(error, Gone) or (isinstance(error, ApiError) and error.status == 0)
        level = logging.INFO if expected and self._failures < self._settings.relist_after else logging.WARNING
        log.log(level, "watch interrupted", extra={"resource": self.resource.plural, "error": str(error)})

    # ---- listing

    async def _relist(self, refreshes: int) -> None:
        size = self._settings.page_size
        try:
            items, version = await self._pages(size)
        except Gone:
            # The continue token expired between two pages. Larger pages need less time and are still read in short steps.
            try:
                items, version = await self._pages(size * _LARGER)
            except Gone:
                items, version = await self._pages(None)  # in one page, which needs no token
        await self._show(items)
        await self._complete(version, refreshes)

    async def _pages(self, limit: int | None) -> tuple[dict[str, T], str]:
        items: dict[str, T] = {}
        token: str | None = None
        while True:
            page: Page[msgspec.Raw] = await self._kube.list_raw(
                self.resource, limit=limit, continue_=token, **self._selection
            )
            turns = Turns()
            for raw in page.items:
                self._collect(items, raw)
                await turns.give_way()
            token = page.continue_
            if not token:
                return items, page.resource_version

    def _collect(self, items: dict[str, T], raw: msgspec.Raw) -> None:
        obj = self._decode(raw)
        if obj is not None:
            if self._plain:
                name_kind(self.resource, obj)
            items[identity(obj).key] = obj
        elif (object_identity := raw_identity(raw)) is not None and object_identity.key in self.objects:
            items[object_identity.key] = self.objects[object_identity.key]

    async def _show(self, items: dict[str, T]) -> None:
        """Makes the copy equal to `items`, and empties them."""
        metrics.INFORMER_LISTS.labels(self.resource.plural).inc()
        turns = Turns()
        for _ in self._store.replace(items):
            await turns.give_way()
        self._synced.set()

    async def _complete(self, version: str, refreshes: int) -> None:
        """Records that a list is shown, and that it answers the refreshes requested before it began."""
        self._reached(version)
        self._answered = refreshes
        async with self._refreshed:
            self._refreshed.notify_all()

    # ---- watching

    async def _bookmark(self, raw: msgspec.Raw, refreshes: int) -> None:
        try:
            meta = _bookmark_decoder.decode(raw).metadata
        except msgspec.DecodeError as error:
            raise ApiError(200, "MalformedWatch", f"{self.resource.plural}: a bookmark is none: {error}") from error
        if self._initial is None:
            self._reached(meta.resource_version)
        elif _INITIAL_EVENTS_END in meta.annotations:
            items, self._initial = self._initial, None
            await self._show(items)
            await self._complete(meta.resource_version, refreshes)

    def _gather(self, items: dict[str, T], event: WatchEvent) -> None:
        """Applies an event that arrives before the streamed list is complete."""
        if event.type != ChangeType.DELETED:
            self._collect(items, event.object)
        elif (object_identity := raw_identity(event.object)) is not None:
            items.pop(object_identity.key, None)

    def _apply(self, event: WatchEvent) -> None:
        if self._observes and event.type != ChangeType.DELETED:
            echo = raw_identity(event.object)
            if echo is not None and self._store.holds(echo):
                self._writes.delivered(echo.key, echo.resource_version)
                self._reached(echo.resource_version)  # the copy has it from the write's response: not decoded again
                return
        obj = self._decode(event.object)
        object_identity = identity(obj) if obj is not None else raw_identity(event.object)
        if event.type != ChangeType.DELETED:
            if obj is not None:
                self._store.upsert(obj)
        elif obj is not None:
            self._store.delete(obj)
        elif object_identity is not None:
            self._store.delete_key(object_identity.key)
        if event.type == ChangeType.DELETED and object_identity is not None:
            self._writes.delivered(object_identity.key, "")
        if (
            object_identity is not None and not object_identity.resource_version
        ):  # a projected type that does not carry it
            object_identity = raw_identity(event.object)
        if object_identity is not None:
            self._reached(object_identity.resource_version)

    def _reached(self, version: str) -> None:
        """Records the resourceVersion of the copy, from which the watch resumes."""
        self._heard_at = time.time()
        if version:
            self._version = self._last_version = version

    def _heard(self) -> float:
        return self._heard_at

    def _progress(self) -> float:
        return int(self._last_version) if self._last_version.isdigit() else 0

    def _decode(self, raw: msgspec.Raw) -> T | None:
        """Returns the typed object, or None (logged) if it does not decode. Removes managedFields, half of a Job's memory."""
        try:
            obj = self._decoder(refuse_cut(raw))
            if self._plain:
                cast("dict[str, Any]", obj)["metadata"].pop("managedFields", None)
        except Exception as error:  # noqa: BLE001 - one bad object, whatever its error, must not stop the watch
            metrics.INFORMER_UNDECODABLE.labels(self.resource.plural).inc()
            log.error("object left out", extra={"error": str(undecodable(self.resource.kind, bytes(raw), error))})
            return None
        return obj
