"""Changes for pages that look: one batch for all clients, encoded once per set of permissions, a bounded queue for each client.

A client that does not read is dropped, and asks for everything again when it returns; the others never wait for it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from admission.dashboard.trees import shown, shown_reservation
from admission.dashboard.viewer import Permissions

MOST_CLIENTS: Final = 256
MOST_OF_ONE: Final = 16
"""Streams of one viewer, so that none takes those of all others."""
_QUEUED: Final = 64
"""Batches that wait for a client."""
_PART: Final = 500
"""Rows of Workloads in one event."""


class TooManyClients(Exception):
    """No more streams are served to anybody."""


class TooManyOfOne(Exception):
    """No more streams are served to this viewer."""


class Batch:
    """What changed in one step: entries of rows by flavor, structures, rows of Workloads, removed keys, and queues."""

    def __init__(
        self,
        trees: dict[str, tuple[int, list[dict[str, Any]]]],
        structure: list[str],
        workloads: list[dict[str, Any]],
        removed: list[str],
        *,
        queues: bool,
    ) -> None:
        self._trees, self._structure, self._workloads = trees, structure, workloads
        self._removed, self._queues = removed, queues
        self._encoded: dict[Permissions, bytes] = {}

    def encoded(self, permissions: Permissions) -> bytes:
        """Returns the events that a viewer with these permissions gets; empty for none."""
        encoded = self._encoded.get(permissions)
        if encoded is None:
            encoded = self._encoded[permissions] = b"".join(
                event(name, data) for name, data in self._events(permissions)
            )
        return encoded

    def _events(self, permissions: Permissions) -> Iterator[tuple[str, Any]]:
        if permissions.nodes:
            for flavor in self._structure:
                yield "structure", {"flavor": flavor}
            for flavor, (version, entries) in self._trees.items():
                hosts = [_seen(entry, permissions) for entry in entries]
                yield "topology", {"flavor": flavor, "version": version, "hosts": hosts}
        changed = [row for row in self._workloads if permissions.sees(row["namespace"])]
        removed = [key for key in self._removed if permissions.sees(key.partition("/")[0])]
        for first in range(0, max(len(changed), len(removed)), _PART):
            part = slice(first, first + _PART)
            yield "workloads", {"changed": changed[part], "removed": removed[part]}
        if self._queues and permissions.queues:
            yield "queues", {}


def _seen(entry: dict[str, Any], permissions: Permissions) -> dict[str, Any]:
    runs = [
        [*shown(key, queue, permissions.sees, queues=permissions.queues), pods, amounts]
        for key, queue, pods, amounts in entry["runs"]
    ]
    reserved = [shown_reservation(one, permissions.reservations) for one in entry["reserved"]]
    waiting = [shown(key, queue, permissions.sees, queues=permissions.queues) for key, queue in entry["heldFor"]]
    return {**entry, "runs": runs, "reserved": reserved, "heldFor": waiting}


def event(name: str, data: Any) -> bytes:
    """Returns a server-sent event."""
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(data) + b"\n\n"


class Clients:
    """The streams that are open."""

    def __init__(self) -> None:
        self._queues: set[asyncio.Queue[Batch | None]] = set()
        self._of: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._queues)

    def publish(self, batch: Batch) -> None:
        """Gives the batch to all clients, and drops those that have not read too many."""
        for queue in list(self._queues):
            try:
                queue.put_nowait(batch)
            except asyncio.QueueFull:
                self._queues.discard(queue)
                while not queue.empty():
                    queue.get_nowait()
                queue.put_nowait(None)

    @contextmanager
    def joined(self, viewer: str) -> Iterator[asyncio.Queue[Batch | None]]:
        """Yields the queue of a new client; None in it ends the stream. Raises TooManyOfOne and TooManyClients.

        `viewer` says whose share it takes. A client that was dropped counts until its connection has ended.
        """
        if self._of[viewer] >= MOST_OF_ONE:
            raise TooManyOfOne
        if self._of.total() >= MOST_CLIENTS:
            raise TooManyClients
        queue: asyncio.Queue[Batch | None] = asyncio.Queue(_QUEUED)
        self._queues.add(queue)
        self._of[viewer] += 1
        try:
            yield queue
        finally:
            self._queues.discard(queue)
            self._of[viewer] -= 1
            if not self._of[viewer]:
                del self._of[viewer]
