"""Documents that are computed in a forked copy of the process."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from typing import Final

import pytest

from api.process.forked import ForkFailed, in_fork
from api.process.health import HealthServer
from tests.api.kube.test_process import asked

LARGE: Final = 5_000_000


async def read(compute: Callable[[], bytes], limit: float = 60.0) -> bytes:
    async with in_fork(compute, limit) as (size, document):
        found = await document.read(-1)
        assert len(found) == size
        return found


async def test_the_copy_has_what_was_there_and_changes_nothing() -> None:
    state = [1]

    def page() -> bytes:
        state.append(2)
        return str(state).encode()

    assert await read(page) == await read(page) == b"[1, 2]"
    assert state == [1]


async def test_a_document_is_larger_than_a_pipe() -> None:
    assert await read(lambda: b"x" * LARGE) == b"x" * LARGE


async def test_the_loop_answers_while_a_page_is_computed() -> None:
    waits, answered = os.pipe()
    pages = {"snapshot": lambda: os.read(waits, 1)}
    async with HealthServer("127.0.0.1", 0, lambda: None, pages) as health:
        page = asyncio.create_task(asked(health.port, "/snapshot"))
        assert await asked(health.port, "/healthz") == (200, "ok\n")
        os.write(answered, b"1")
        assert await page == (200, "1")
    os.close(waits)
    os.close(answered)


def _fails() -> bytes:
    raise ValueError("a bug")


def _is_killed() -> bytes:
    os.kill(os.getpid(), signal.SIGKILL)
    return b"never"


def _takes_long() -> bytes:
    time.sleep(600)
    return b"late"


@pytest.mark.parametrize(
    ("compute", "limit", "why"),
    [
        pytest.param(_fails, 60.0, "ended early", id="fails"),
        pytest.param(_is_killed, 60.0, "ended early", id="is-killed"),
        pytest.param(_takes_long, 1.0, "longer than 1 s", id="takes-long"),
    ],
)
async def test_a_copy_without_a_document_is_an_error_and_ends(
    compute: Callable[[], bytes], limit: float, why: str
) -> None:
    started, starts = os.pipe()

    def page() -> bytes:
        os.write(starts, str(os.getpid()).encode())
        return compute()

    with pytest.raises(ForkFailed, match=why):
        await read(page, limit)
    os.close(starts)
    copy = os.read(started, 20)  # empty where it was ended before it began, on a busy machine
    os.close(started)
    if copy:
        with pytest.raises(ProcessLookupError):
            os.kill(int(copy), 0)


async def test_a_page_that_fails_is_answered_with_the_reason() -> None:
    async with HealthServer("127.0.0.1", 0, lambda: None, {"snapshot": _fails}) as health:
        status, text = await asked(health.port, "/snapshot")
        assert status == 503
        assert "could not be computed" in text
        assert (await asked(health.port, "/healthz"))[0] == 200


async def test_a_reader_that_leaves_ends_the_copy() -> None:
    """Most of the document is still in the copy, which waits for its reader."""
    async with in_fork(lambda: str(os.getpid()).encode().ljust(LARGE)) as (size, document):
        assert size == LARGE
        copy = int(await document.readuntil(b" "))
        os.kill(copy, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(copy, 0)
