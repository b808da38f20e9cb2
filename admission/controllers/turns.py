"""Runs a long computation on the loop's own data in turns, so that it holds the loop for no longer than one turn.

The computation runs in a thread, and the loop stands still while it does: the two never run at once, so neither needs a lock.
Between two turns the loop does its other work, which may change the data. Used by explainer.py: an explanation tries a hundred
placements on the ledger, and each of them starts from the ledger as it is then.
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
    """One computation: `what(pause)`, which calls `pause` often.

    `seconds`: a turn. `rest`: after each second of a turn so many follow in which the loop does other work. `spent`: the
    seconds of all turns so far, also of a computation that failed.
    """

    def __init__(self, what: Callable[[Callable[[], None]], T], seconds: float, rest: float) -> None:
        self._what, self._seconds, self._rest, self._until = what, seconds, rest, 0.0
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._abandoned, self._ended = False, False
        self.spent = 0.0

    async def result(self) -> T:
        """Raises what the computation raises; when it is cancelled, the computation ends first."""
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
        """The seconds that it took."""
        began = time.perf_counter()
        self._until = began + self._seconds
        self._go.release()
        self._back.acquire()
        took = time.perf_counter() - began
        self.spent += took
        return took

    def _run(self) -> T:
        try:
            self._wait()
            return self._what(self._pause)
        finally:
            self._ended = True
            self._back.release()

    def _pause(self) -> None:
        if time.perf_counter() >= self._until:
            self._back.release()
            self._wait()

    def _wait(self) -> None:
        self._go.acquire()
        if self._abandoned:
            raise _Abandoned
