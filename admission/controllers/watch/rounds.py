"""Handles many keys on the event loop in rounds of short steps, after a change that concerns them all.

A change may concern ten thousand Workloads, and each costs tens of microseconds: other tasks must run in between. A round takes
the keys that were added before it began, each once; keys that are added meanwhile belong to the next round. Between two rounds
no change is half handled, and a task that waits for `settled` runs there. The feed and controllers use it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from admission.controllers.watch.in_steps import has_loop
from api.kube import metrics
from api.kube.turns import TURN

T = TypeVar("T")
log = logging.getLogger(__name__)

_MOST_ROUNDS = 3
# The round under way, the next one, and the one with the keys that the next one adds: a ClusterQueue's Workloads.


class Rounds:
    """`handle` is called for each key, `ended` after each round. Without `in_steps` or a running loop, `add` handles at once.

    `resource` names the keys in logs and metrics.
    """

    def __init__(
        self,
        resource: str,
        handle: Callable[[str], None],
        ended: Callable[[], None] = lambda: None,
        *,
        in_steps: bool = False,
    ) -> None:
        self._resource, self._handle, self._ended = resource, handle, ended
        self._keys: dict[str, None] = {}
        self._searches: dict[str, Callable[[], Iterator[str | None]]] = {}
        self._busy = self._finishing = False
        self._under_way: Iterator[None] = iter(())
        self._round = 0
        self._waiting: list[asyncio.Future[None]] = []
        self.in_steps = in_steps

    def add(self, keys: Iterable[str]) -> None:
        """Adds keys to the next round."""
        self._keys.update(dict.fromkeys(keys))
        if self._keys:
            self._start()

    def add_where(self, name: str, objects: Mapping[str, T], concerned: Callable[[T], bool]) -> None:
        """Adds the keys of the objects that the change concerns; see `add_found`."""
        self.add_found(name, partial(_keys_where, objects, concerned))

    def add_found(self, name: str, search: Callable[[], Iterator[str | None]]) -> None:
        """Adds the keys that `search` yields; None is a step that found nothing.

        The search runs in the next round, in steps too, and once for a name, however often it was added.
        """
        self._searches[name] = search
        self._start()

    async def settled(self) -> None:
        """Waits until no key is left, or the third round from now has ended: keys may be added without end.

        When it returns, no round is under way, until the caller gives way to the loop.
        """
        last = self._round + _MOST_ROUNDS
        while self._busy and self._round < last:
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiting)
            await waiting

    def finish(self) -> None:
        """Handles all keys now, with those that are added meanwhile, for a copy of the process, which has no loop to do so."""
        self._finishing = True
        try:
            for _ in self._under_way:
                pass
            while self._keys or self._searches:
                for _ in self._steps():
                    pass
        finally:
            self._finishing = False

    def _start(self) -> None:
        if self._finishing:
            return
        if not self.in_steps or not has_loop():
            self.finish()
            self._end()
        elif not self._busy:
            self._busy = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        self._under_way = self._steps()
        self._advance()

    def _advance(self) -> None:
        until = time.perf_counter() + TURN
        for _ in self._under_way:
            if time.perf_counter() > until:
                asyncio.get_running_loop().call_soon(self._advance)
                return
        self._round += 1
        self._end()
        self._busy = bool(self._keys or self._searches)
        # The loop runs callbacks in order: those that wait run before the next round begins.
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)
        if self._busy:
            asyncio.get_running_loop().call_soon(self._begin)

    def _end(self) -> None:
        with self._reported("end of a round"):
            self._ended()

    def _steps(self) -> Iterator[None]:
        keys, self._keys = self._keys, {}
        searches, self._searches = self._searches, {}
        for name, search in searches.items():
            with self._reported(f"search {name}"):
                for each in search():
                    if each is not None:
                        keys[each] = None
                    yield
        for key in keys:
            with self._reported(key):
                self._handle(key)
            yield

    @contextmanager
    def _reported(self, key: str) -> Iterator[None]:
        """Reports an error and goes on: if a round did not end, `settled` would never return, and no cycle would decide."""
        try:
            yield
        except Exception:
            metrics.HANDLER_ERRORS.labels(self._resource).inc()
            log.exception("handler failed", extra={"resource": self._resource, "key": key})


def steps_over(objects: Mapping[str, T]) -> Iterator[tuple[str, T]]:
    """Yields the items that are there now and when their turn comes: objects come and go between two steps."""
    for key in tuple(objects):
        if (obj := objects.get(key)) is not None:
            yield key, obj


def _keys_where(objects: Mapping[str, T], concerned: Callable[[T], bool]) -> Iterator[str | None]:
    """Yields the keys of these objects, and None for each other."""
    for key, obj in steps_over(objects):
        yield key if concerned(obj) else None
