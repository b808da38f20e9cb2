"""An informer of a kind that most clusters never need: it starts when a caller asks for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from api.kube.informers.informer import Informer

T = TypeVar("T")


class LazyInformer(Informer[T]):
    """An informer that lists and watches after `wake`. Before that it counts as settled."""

    _woken: asyncio.Event | None = None
    _listeners: tuple[Callable[[], None], ...] = ()
    _wanted = False

    def wake(self) -> None:
        """Starts to list and watch, if it has not yet."""
        self._wanted = True
        if self._woken is not None:
            self._woken.set()

    @property
    def is_wanted(self) -> bool:
        """Reports whether a caller has asked for the copy."""
        return self._wanted

    @property
    def is_settled(self) -> bool:
        """Reports whether the copy was not requested, or holds its first list."""
        return not self._wanted or self.has_synced

    def on_synced(self, fn: Callable[[], None]) -> None:
        """Registers a function that is called when the first list is complete."""
        self._listeners = (*self._listeners, fn)

    async def synced(self, timeout: float) -> None:  # noqa: ASYNC109 - as Informer's
        """Waits for the first list; returns at once if the copy was not requested."""
        if self._wanted:
            await super().synced(timeout)

    async def run(self) -> None:
        """Waits for `wake`, then lists and watches until cancelled."""
        self._woken = asyncio.Event()
        if not self._wanted:
            await self._woken.wait()
        async with asyncio.TaskGroup() as group:
            group.create_task(super().run(), name=f"informer {self.resource.plural}")
            await self._synced.wait()
            for fn in self._listeners:
                fn()
