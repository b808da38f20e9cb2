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
from functools import partial
from time import monotonic, thread_time
from typing import Final

import uvloop

from api.kube import metrics

log = logging.getLogger(__name__)

LIMIT: Final = 0.05
"""CPU seconds that no step may take; the log names one that does."""
_COUNTED: Final = 0.01
"""CPU seconds from which a step is counted: the many short ones would cost more than they tell."""

_BETWEEN: Final = 0.001
"""Seconds within which the loop does not ask again: what short steps took in them is charged to the long one after them."""


class MeasuredLoop(uvloop.Loop):
    """A loop whose steps are measured, which costs each step a third of a microsecond."""

    def __init__(self) -> None:
        super().__init__()
        step = _measured_step()
        # Attributes that are partial calls: a method in Python would cost each step a frame more.
        vars(self).update(
            call_soon=partial(super().call_soon, step),
            call_soon_threadsafe=partial(super().call_soon_threadsafe, step),
            call_at=_timed(super().call_at, step),
            call_later=_timed(super().call_later, step),
        )


def _measured_step() -> Callable[..., None]:
    """Returns what calls a callback, and then asks for the CPU time if a millisecond has passed since it last asked."""
    cpu, due = thread_time(), monotonic()

    def measured(callback: Callable[..., object], *args: object) -> None:
        nonlocal cpu, due
        try:
            callback(*args)
        finally:
            if monotonic() > due:
                before, cpu = cpu, thread_time()
                # Since the last time: the loop's own work and the callbacks of sockets belong to the step.
                if cpu - before > _COUNTED:
                    _count(callback, cpu - before)
                due = monotonic() + _BETWEEN

    return measured


def _timed(
    schedule: Callable[..., asyncio.TimerHandle], step: Callable[..., None]
) -> Callable[..., asyncio.TimerHandle]:
    """Returns `call_at` or `call_later`, of which the time comes first."""

    def timed(
        when: float, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return schedule(when, step, callback, *args, context=context)

    return timed


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
