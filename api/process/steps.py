"""The event loop of the processes: uvloop, which measures the CPU time of each step and names those that are long.

A step is one callback of the loop, for example the part of a task between two awaits, with the callbacks of sockets that ran
before it: nothing else runs meanwhile. CPU time of the thread leaves out what other processes and threads take, so a long step
is a defect on a busy machine too. Asking for it is a system call, so the loop asks only when a millisecond has passed by a
clock that needs none: no step uses more CPU time than that clock tells. process.serve runs it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextvars import Context
from time import monotonic, thread_time
from typing import Final, TypeVarTuple, Unpack

import uvloop

from api.kube import metrics

log = logging.getLogger(__name__)
_Args = TypeVarTuple("_Args")

LIMIT: Final = 0.05
"""CPU seconds that no step may take; the log names one that does."""
_COUNTED: Final = 0.01
"""CPU seconds from which a step is counted: the many short ones would cost more than they tell."""

_BETWEEN: Final = 0.001
"""Seconds within which the loop does not ask again: what short steps took in them is charged to the long one after them."""

# Looked up once, since each step calls one of them.
_call_soon = uvloop.Loop.call_soon
_call_soon_threadsafe = uvloop.Loop.call_soon_threadsafe
_call_at = uvloop.Loop.call_at
_call_later = uvloop.Loop.call_later


class MeasuredLoop(uvloop.Loop):
    """A loop whose steps are measured, which costs each step half a microsecond."""

    def __init__(self) -> None:
        super().__init__()
        self._cpu = thread_time()
        self._next = monotonic()
        self._step = self._measured

    def call_soon(
        self, callback: Callable[[Unpack[_Args]], object], *args: *_Args, context: Context | None = None
    ) -> asyncio.Handle:
        """Schedules the callback as a measured step."""
        if args:
            return _call_soon(self, self._step, callback, *args, context=context)
        # A step of a task has no arguments, and a call without them is cheaper.
        return _call_soon(self, self._step, callback, context=context)

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[_Args]], object], *args: *_Args, context: Context | None = None
    ) -> asyncio.Handle:
        """Schedules the callback as a measured step, from any thread."""
        return _call_soon_threadsafe(self, self._step, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[_Args]], object],
        *args: *_Args,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Schedules the callback as a measured step at that time of the loop."""
        return _call_at(self, when, self._step, callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[_Args]], object],
        *args: *_Args,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Schedules the callback as a measured step after so many seconds."""
        return _call_later(self, delay, self._step, callback, *args, context=context)

    def _measured(self, callback: Callable[[Unpack[_Args]], object], *args: *_Args) -> None:
        try:
            callback(*args)
        finally:
            if monotonic() > self._next:
                self._measure(callback)

    def _measure(self, callback: Callable[..., object]) -> None:
        cpu = thread_time()
        # Since the last time: the loop's own work and the callbacks of sockets belong to the step.
        took, self._cpu = cpu - self._cpu, cpu
        if took > _COUNTED:
            _count(callback, took)
        self._next = monotonic() + _BETWEEN


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
