"""Computes a document from the process's data in a forked copy of it, so that the event loop keeps running.

The copy sees all data as of one moment, and its own changes do not affect the process. Only the fork itself blocks the loop,
some milliseconds for each 100 MiB of the process. The copy uses up to as much memory again, since it touches most objects;
where memory is short, the kernel ends it before the process. health.py serves such documents.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final, NoReturn

log = logging.getLogger(__name__)

TIMEOUT: Final = 120.0
"""Seconds until a copy is ended, from its start until its document was read."""
_HEAD: Final = 8
_UNREAD: Final = 1 << 18
"""Bytes of a document that wait in this process for a slow reader; the rest stays in the copy."""


class ForkFailed(Exception):
    """The copy ended without its document, or took too long."""


@asynccontextmanager
async def in_fork(
    compute: Callable[[], bytes], limit: float = TIMEOUT
) -> AsyncIterator[tuple[int, asyncio.StreamReader]]:
    """Returns size and bytes of what `compute` returns in a forked copy; the copy ends with the context.

    Raises ForkFailed if `compute` fails, is killed, or if the context lasts longer than `limit` seconds. `compute` may use
    neither the event loop nor other threads: the copy has none.
    """
    source, sink = os.pipe()
    child = _fork()
    if child == 0:
        _work(compute, sink)
    os.close(sink)
    reader = asyncio.StreamReader(limit=_UNREAD)
    with os.fdopen(source, "rb", buffering=0) as pipe:
        try:
            transport, _ = await asyncio.get_running_loop().connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(reader), pipe
            )
            try:
                async with asyncio.timeout(limit):
                    yield int.from_bytes(await reader.readexactly(_HEAD)), reader
            finally:
                transport.close()
        except asyncio.IncompleteReadError:
            raise ForkFailed("the copy of the process ended early; its log has the reason") from None
        except TimeoutError:
            raise ForkFailed(f"it took longer than {limit:g} s") from None
        finally:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)  # it has ended unless the document was not read to its end
            await asyncio.shield(asyncio.to_thread(os.waitpid, child, 0))


def _fork() -> int:
    with warnings.catch_warnings():
        # Python 3.12 warns of other threads, whose locks the copy would find held: it uses none of them.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _work(compute: Callable[[], bytes], sink: int) -> NoReturn:
    """Writes the document's size and bytes in the copy, and ends it, without the cleanup that belongs to the process."""
    status = 1
    try:
        # Signals of the copy must not reach the process's loop through the file descriptor that both have.
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        gc.disable()  # a collection would touch, and so copy, every object
        os.nice(10)
        _end_first()
        document = compute()
        with os.fdopen(sink, "wb") as pipe:
            pipe.write(len(document).to_bytes(_HEAD))
            pipe.write(document)
        status = 0
    except BaseException:
        log.exception("a document could not be computed in a copy of the process")
    finally:
        os._exit(status)


def _end_first() -> None:
    """Lets the kernel choose the copy where memory is short."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
