"""Job kinds that are installed separately: the controller runs without them, and watches each from when it is served."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from api.errors import NotFound, StowageError
from api.kube.client import Kube
from api.kube.informer import Informer
from api.kube.resources import Resource

log = logging.getLogger(__name__)

_ASK_AGAIN = 15.0
"""Seconds: how long after its installation a kind is taken up at the latest."""
_NO_ANSWER = 1.0


class WhenServed(Informer[dict[str, Any]]):
    """An informer whose kind the API server may not know (yet): empty until then, which counts as synced."""

    def __init__(self, kube: Kube, resource: Resource, *, label_selector: str | None = None) -> None:
        super().__init__(kube, resource, dict, label_selector=label_selector)
        self._asked = asyncio.Event()
        self._served = False

    async def run(self) -> None:
        """Until cancelled."""
        while not self._served:
            pause = await self._ask()
            await asyncio.sleep(pause)
        await super().run()

    async def synced(self, timeout: float) -> None:  # noqa: ASYNC109 - as Informer's
        """Returns when the first list is held, or the API server has said that it does not know the kind."""
        try:
            async with asyncio.timeout(timeout):
                await self._asked.wait()
        except TimeoutError:
            raise TimeoutError(
                f"{self.resource.plural}: whether they are served is not known within {timeout} s"
            ) from None
        if self._served:
            await super().synced(timeout)

    async def _ask(self) -> float:
        """Seconds after which to go on."""
        try:
            await self._kube.list(self.resource, limit=1)
        except NotFound:
            if not self._asked.is_set():
                log.info("kind not installed", extra={"resource": self.resource.plural})
            self._asked.set()
            return _ASK_AGAIN
        except StowageError as error:
            log.warning("cannot tell whether %s are served: %s", self.resource.plural, error)
            return _NO_ANSWER
        self._served = True
        self._asked.set()
        return 0.0
