"""Runs a long computation on the event loop's own data in turns, so that it occupies the loop for at most one turn.

explainer.py uses it: an explanation tries a hundred placements, each of which starts from the ledger as it is then. The
computation runs in a thread while the loop is blocked: the two never run at once, so neither needs a lock. Between two turns
the loop does other work, which may change the data.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")


class _Abandoned(BaseException):
    """The caller was cancelled; ends the computation at its next pause."""


class Turns(Generic[T]):
    """One computation `what(pause)`, which must call `pause` often.

    `seconds` is the length of a turn. `rest` is the number of seconds left to the loop for each second of a turn. `spent` is
    the total of all turns so far in seconds, also of a failed computation.
    """

    def __init__(self, what: Callable[[Callable[[], None]], T], seconds: float, rest: float) -> None:
        self._function, self._seconds, self._rest, self._until = what, seconds, rest, 0.0
        self._permits, self._resumed = threading.Semaphore(0), threading.Semaphore(0)
        self._abandoned, self._ended = False, False
        self.spent = 0.0

    async def result(self) -> T:
        """Runs the computation; raises what it raises. On cancellation the computation ends first."""
        with ThreadPoolExecutor(1, thread_name_prefix="turns") as pool:
            future = pool.submit(self._run)
            try:
                while not self._ended:
                    took = self._turn()
                    if not self._ended:
                        await asyncio.sleep(took * self._rest)
                return future.result()
            finally:
                if not self._ended:
                    self._abandoned = True
                    self._turn()

    def _turn(self) -> float:
        """Runs one turn; returns its seconds."""
        began = time.perf_counter()
        self._until = began + self._seconds
        self._permits.release()
        self._resumed.acquire()
        took = time.perf_counter() - began
        self.spent += took
        return took

    def _run(self) -> T:
        try:
            self._wait()
            return self._function(self._pause)
        finally:
            self._ended = True
            self._resumed.release()

    def _pause(self) -> None:
        if time.perf_counter() >= self._until:
            self._resumed.release()
            self._wait()

    def around(self, leave: Callable[[], None], enter: Callable[[], None]) -> Callable[[], None]:
        """Returns a pause for a computation in a context: `leave` is called before others run, `enter` afterwards.

        A turn is as long as others beside its `enter`, so that work goes on however long that takes.
        """

        def pause() -> None:
            if time.perf_counter() >= self._until:
                leave()
                self._pause()
                enter()
                self._until = time.perf_counter() + self._seconds

        return pause

    def _wait(self) -> None:
        self._permits.acquire()
        if self._abandoned:
            raise _Abandoned
