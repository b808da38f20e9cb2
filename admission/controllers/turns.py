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


class _Turns(Generic[T]):
    def __init__(self, what: Callable[[Callable[[], None]], T], seconds: float) -> None:
        self._what, self._seconds, self._until = what, seconds, 0.0
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._abandoned, self.ended = False, False
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="turns")
        self._future = self._pool.submit(self._run)

    def take(self) -> None:
        """One turn. Returns when it is over or the computation has ended."""
        self._until = time.perf_counter() + self._seconds
        self._go.release()
        self._back.acquire()

    def close(self) -> None:
        """End the computation, also in the middle."""
        if not self.ended:
            self._abandoned = True
            self.take()
        self._pool.shutdown()

    def result(self) -> T:
        return self._future.result()

    def _run(self) -> T:
        self._wait()
        try:
            return self._what(self._pause)
        finally:
            self.ended = True
            self._back.release()

    def _pause(self) -> None:
        if time.perf_counter() >= self._until:
            self._back.release()
            self._wait()

    def _wait(self) -> None:
        self._go.acquire()
        if self._abandoned:
            raise _Abandoned


async def in_turns(what: Callable[[Callable[[], None]], T], seconds: float, rest: float) -> tuple[T, float]:
    """The result of `what(pause)`, which calls `pause` often, and the seconds that it took.

    `seconds`: a turn. `rest`: after each second of a turn so many follow in which the loop does other work. Raises what `what`
    raises.
    """
    turns, spent = _Turns(what, seconds), 0.0
    try:
        while True:
            began = time.perf_counter()
            turns.take()
            spent += (took := time.perf_counter() - began)
            if turns.ended:
                return turns.result(), spent
            await asyncio.sleep(took * rest)
    finally:
        turns.close()
