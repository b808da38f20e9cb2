"""A local copy of a kind that most clusters never need here: empty and not watched until something asks for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from api.kube.informer import Informer

T = TypeVar("T")


class LazyInformer(Informer[T]):
    """An informer that lists and watches from `wake` on. Until then it counts as settled: nobody waits for it."""

    _woken: asyncio.Event | None = None
    _listeners: tuple[Callable[[], None], ...] = ()
    _asked = False

    def wake(self) -> None:
        """Something needs the copy: watch from now on."""
        self._asked = True
        if self._woken is not None:
            self._woken.set()

    @property
    def is_settled(self) -> bool:
        """Whether nobody needs the copy, or it holds its first list."""
        return not self._asked or self.has_synced

    def on_synced(self, fn: Callable[[], None]) -> None:
        """`fn` is called once the first list is held."""
        self._listeners = (*self._listeners, fn)

    async def synced(self, timeout: float) -> None:  # noqa: ASYNC109 - as Informer's
        """Returns when the first list is held, at once where nobody has asked for it."""
        if self._asked:
            await super().synced(timeout)

    async def run(self) -> None:
        """Until cancelled."""
        self._woken = asyncio.Event()
        if not self._asked:
            await self._woken.wait()
        async with asyncio.TaskGroup() as group:
            group.create_task(super().run(), name=f"informer {self.resource.plural}")
            await self._synced.wait()
            for fn in self._listeners:
                fn()
