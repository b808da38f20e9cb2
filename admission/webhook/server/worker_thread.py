"""A thread for reviews and conversions that would hold the loop too long. server.py has three."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from admission.serving.bounded_server import Refused

T = TypeVar("T")


_TRIES: Final = 5
_LONGEST_REST: Final = 0.5
"""Most seconds that a worker thread rests between two calls while others wait."""


class WorkerThread:
    """A thread that makes slow calls one at a time; a limited number of callers may wait.

    While others wait, the thread rests as long as it worked, because reviews on the event loop need the interpreter too.
    """

    def __init__(self, name: str, limit: int) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._limit, self._waiting, self._rest = limit, 0, 0.0

    @property
    def is_full(self) -> bool:
        return self._waiting >= self._limit

    @contextlib.contextmanager
    def line(self) -> Iterator[None]:
        """Counts a caller as waiting while the block runs. Raises Refused when too many callers wait."""
        if self.is_full:
            raise Refused(503, "ServiceUnavailable", "too many large requests at once")
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    async def call(self, what: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._call_after_rest, what, *arguments)

    def _call_after_rest(self, what: Callable[..., T], *arguments: Any) -> T:
        time.sleep(self._rest)
        began = time.perf_counter()
        try:
            return _call_with_retries(what, *arguments)
        finally:
            self._rest = min(time.perf_counter() - began, _LONGEST_REST) if self._waiting > 1 else 0.0

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


def _call_with_retries(what: Callable[..., T], *arguments: Any) -> T:
    """Retries a call that failed because the event loop changed a lookup during the thread's iteration over it."""
    for _ in range(_TRIES - 1):
        with contextlib.suppress(RuntimeError):
            return what(*arguments)
    return what(*arguments)
