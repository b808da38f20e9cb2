"""One watch: which events of a table it sees, and how they wait until a client reads them.

Decides how a filtered watch shows an object that starts or ceases to match (ADDED, DELETED). The HTTP stream, its
bookmarks and its time limit are in stream.py. Called by store.py; read by stream.py, by workers and by tests.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from api.fake.selectors import Filter
from api.fake.table import StoredObject, StoreEvent, Table


class Watcher:
    """Reads either `drain()` (synchronous, what is there now) or `async for` (waits).

    A DELETED event of a filtered watch carries the record that no longer matches, as the real server sends it.
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
        """Returns the event as this watch shows it; None when it does not."""
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
        """Everything that has happened since the last reading."""
        events = list(self._waiting)
        self._waiting.clear()
        self._ready.clear()
        return events

    async def wait(self, seconds: float | None) -> bool:
        """True when there is something to drain, False after `seconds`."""
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
        """No more events; wakes every waiter."""
        self.closed = True
        self._table.watchers.discard(self)
        self._ready.set()


def _last_seen(event: StoreEvent) -> StoredObject:
    """For an object that left the selection: its last matching state at the resourceVersion of the change."""
    if event.type == "DELETED" or event.old is None:
        return event.record
    obj = {**event.old.obj, "metadata": {**event.old.obj["metadata"], "resourceVersion": str(event.record.rv)}}
    return StoredObject(event.record.key, obj, event.record.rv)
