"""Tasks that run while a block of a test runs, and waits for what they bring about."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

from api.errors import NotFound

DEADLINE = 90.0


@contextlib.asynccontextmanager
async def running(*work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Runs the coroutines as tasks until the block ends, then cancels them. Raises the error of a task that has failed."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def eventually(check: Callable[[], Awaitable[Any]]) -> Any:
    """Returns the first true value of `check`, which may raise NotFound until then. Raises TimeoutError after the deadline."""
    async with asyncio.timeout(DEADLINE):
        while True:
            with contextlib.suppress(NotFound):
                if found := await check():
                    return found
            await asyncio.sleep(0.01)
