"""The event loop of the processes: uvloop, which measures the CPU time of each step and names those that are long.

A step is one callback of the loop, for example the part of a task between two awaits, with the callbacks of sockets that ran
before it: nothing else runs meanwhile. CPU time of the thread leaves out what other processes and threads take, so a long step
is a defect on a busy machine too. process.serve runs it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextvars import Context
from typing import Final, TypeVarTuple, Unpack

import uvloop

from api.kube import metrics

log = logging.getLogger(__name__)
_Args = TypeVarTuple("_Args")

LIMIT: Final = 0.05
"""CPU seconds that no step may take; the log names one that does."""
_COUNTED: Final = 0.01
"""CPU seconds from which a step is counted: the many short ones would cost more than they tell."""


class MeasuredLoop(uvloop.Loop):
    """A loop whose steps are measured, which costs each step a microsecond."""

    def __init__(self) -> None:
        super().__init__()
        self._ended = time.thread_time()

    def call_soon(
        self, callback: Callable[[Unpack[_Args]], object], *args: *_Args, context: Context | None = None
    ) -> asyncio.Handle:
        """Schedules the callback as a measured step."""
        return super().call_soon(self._measured, callback, *args, context=context)

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[_Args]], object], *args: *_Args, context: Context | None = None
    ) -> asyncio.Handle:
        """Schedules the callback as a measured step, from any thread."""
        return super().call_soon_threadsafe(self._measured, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[_Args]], object],
        *args: *_Args,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Schedules the callback as a measured step at that time of the loop."""
        return super().call_at(when, self._measured, callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[_Args]], object],
        *args: *_Args,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Schedules the callback as a measured step after so many seconds."""
        return super().call_later(delay, self._measured, callback, *args, context=context)

    def _measured(self, callback: Callable[[Unpack[_Args]], object], *args: *_Args) -> None:
        try:
            callback(*args)
        finally:
            ended = time.thread_time()
            # Since the last step ended: the loop's own work and the callbacks of sockets belong to the step.
            took, self._ended = ended - self._ended, ended
            if took > _COUNTED:
                _count(callback, took)


def _count(callback: Callable[..., object], took: float) -> None:
    metrics.LONG_STEPS.observe(took)
    if took > LIMIT:
        log.warning("a step held the loop", extra={"cpu_seconds": round(took, 3), "step": _name(callback)})


def _name(callback: Callable[..., object]) -> str:
    """Names the task and its coroutine, or the function."""
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        coroutine = owner.get_coro()
        return f"{owner.get_name()}: {getattr(coroutine, '__qualname__', coroutine)}"
    return str(getattr(callback, "__qualname__", callback))
