"""An informer of a kind that may not be installed: the controller runs without it, and watches it once it is served.

If a kind is no longer served (its CRD was deleted, or serves another version), the informer checks for it again. Until then the
objects stay as they were: those of a deleted CRD were deleted before it, and those of another version still exist.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from api.errors import Forbidden, NotFound, StowageError
from api.kube.client import Kube
from api.kube.informers.informer import Informer
from api.kube.resources import Resource

log = logging.getLogger(__name__)

_INTERVAL = 13.0
"""Seconds between checks whether the kind is installed, which is known two seconds later at the latest (served.py)."""
_NO_ANSWER = 1.0
_NO_RIGHTS = 5.0


class OptionalInformer(Informer[Any]):
    """An informer of a kind that the API server may not know (yet); until then it is empty and counts as synced.

    `decode` reads an object, a dict unless it is given; `interval` is the time between checks in seconds.
    """

    def __init__(
        self,
        kube: Kube,
        resource: Resource,
        decode: Any = dict,
        *,
        label_selector: str | None = None,
        interval: float = _INTERVAL,
    ) -> None:
        super().__init__(kube, resource, decode, label_selector=label_selector)
        self._checked, self._interval = asyncio.Event(), interval
        self.served = False
        self.problem = ""
        """Why it is unknown whether the kind is served, or an empty string."""

    async def run(self) -> None:
        """Waits until the kind is served, then lists and watches until cancelled."""
        while not self.served:
            pause = await self._discover()
            await asyncio.sleep(pause)
        await super().run()

    @property
    def is_settled(self) -> bool:
        """Reports whether the first list is complete, or the API server does not know the kind."""
        return self.has_synced if self.served else self._checked.is_set()

    async def synced(self, timeout: float) -> None:  # noqa: ASYNC109 - as Informer's
        """Waits until the first list is complete, or until the API server says that it does not know the kind."""
        try:
            async with asyncio.timeout(timeout):
                await self._checked.wait()
        except TimeoutError:
            raise TimeoutError(
                f"{self.resource.plural}: whether they are served is not known within {timeout} s"
            ) from None
        if self.served:
            await super().synced(timeout)

    @property
    def _waits(self) -> bool:
        """Whether the kind was not served, and one request for all such kinds may tell that it still is not."""
        return self._checked.is_set() and not self.problem and self._interval >= _INTERVAL

    async def _attempt(self) -> float:
        pause = await super()._attempt()
        return pause if self.served else min(pause, self._interval)

    def _note(self, error: StowageError) -> None:
        if not isinstance(error, NotFound):
            super()._note(error)
            return
        if self.served:
            log.warning("kind no longer served", extra={"resource": self.resource.plural})
        self.served, self.last_error = False, error
        self._heard_at = 0.0  # the watch delivers nothing
        self._version, self._failures = "", max(self._failures, 1)

    async def _show(self, items: dict[str, dict[str, Any]]) -> None:
        await super()._show(items)
        self.served = True

    async def _discover(self) -> float:
        """Checks whether the kind is served. Returns the seconds until the next step."""
        if self._waits and not await self._kube.served.may_have(self.resource.api_version):
            return self._interval
        try:
            await self._kube.list(self.resource, limit=1)
        except NotFound:
            if not self._checked.is_set():
                log.info("kind not installed", extra={"resource": self.resource.plural})
            self._checked.set()
            self.problem = ""
            return self._interval
        except StowageError as error:
            if str(error) != self.problem:
                log.warning("cannot tell whether %s are served: %s", self.resource.plural, error)
            self.problem = str(error)
            return _NO_RIGHTS if isinstance(error, Forbidden) else _NO_ANSWER
        self.served, self.problem = True, ""
        self._checked.set()
        return 0.0
