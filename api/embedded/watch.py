"""One watch: which events of a table it sees, and a queue until a client reads them.

Decides how a filtered watch shows an object that starts or ceases to match (ADDED, DELETED). stream.py has the HTTP stream, its
bookmarks and its time limit. Called by store.py; read by stream.py, workers and tests.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from api.embedded.selectors import Filter
from api.embedded.table import StoredObject, StoreEvent, Table


class Watcher:
    """A watch. Read it with `drain()` (synchronous) or `async for` (waits).

    A DELETED event of a filtered watch carries the record that no longer matches, as on the real server.
    """

    def __init__(self, table: Table, namespace: str | None, wanted: Filter) -> None:
        self._table = table
        self._prefix = f"{namespace}/" if namespace else ""
        self._wanted = wanted
        self._waiting: deque[StoreEvent] = deque()
        self._ready = asyncio.Event()
        self.closed = False
        table.watchers.add(self)

    def push(self, event: StoreEvent) -> None:
        seen = self.see(event)
        if seen is not None:
            self._waiting.append(seen)
            self._ready.set()

    def see(self, event: StoreEvent) -> StoreEvent | None:
        """Returns the event as this watch shows it, or None."""
        if self._prefix and not event.record.key.startswith(self._prefix):
            return None
        if not self._wanted:
            return event
        return self._filtered(event)

    def _filtered(self, event: StoreEvent) -> StoreEvent | None:
        was = event.old is not None and self._wanted.matches(event.old.obj)
        is_now = event.type != "DELETED" and self._wanted.matches(event.record.obj)
        if is_now:
            return StoreEvent("MODIFIED" if was else "ADDED", event.record, event.old)
        return StoreEvent("DELETED", _last_seen(event), event.old) if was else None

    def drain(self) -> list[StoreEvent]:
        """Returns the events since the last call."""
        events = list(self._waiting)
        self._waiting.clear()
        self._ready.clear()
        return events

    async def wait(self, seconds: float | None) -> bool:
        """Waits for events. Returns False if there are none after `seconds`."""
        try:
            await asyncio.wait_for(self._ready.wait(), seconds)
        except TimeoutError:
            return False
        return True

    async def __aiter__(self) -> AsyncIterator[StoreEvent]:
        while not self.closed:
            await self._ready.wait()
            for event in self.drain():
                yield event

    def close(self) -> None:
        """Ends the watch and wakes all waiters."""
        self.closed = True
        self._table.watchers.discard(self)
        self._ready.set()


def _last_seen(event: StoreEvent) -> StoredObject:
    """Returns, for an object that ceased to match, its last matching state with the resourceVersion of the change."""
    if event.type == "DELETED" or event.old is None:
        return event.record
    obj = {**event.old.obj, "metadata": {**event.old.obj["metadata"], "resourceVersion": str(event.record.rv)}}
    return StoredObject(event.record.key, obj, event.record.rv)
