"""Strangers at the webhook's port, in a process of their own: `python -m tests.attacks.flood PORT SECONDS`.

They have no certificate and no rights: 300 connect and say nothing, 300 shake hands and say nothing, 300 send half a request
and wait; 64 send what is too long, too deep, endless or of too many values, again and again.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import ssl
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

HOST: Final = "127.0.0.1"
HALF_OPEN: Final = 900
FLOODS: Final = 64

PATH: Final = "/validate-batch-v1-job"
_MIB: Final = 1024 * 1024


def _head(length: int | None) -> bytes:
    body = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    return f"POST {PATH} HTTP/1.1\r\nHost: webhook\r\nContent-Type: application/json\r\n{body}\r\n\r\n".encode()


def _review(filling: bytes) -> bytes:
    start = b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE",'
    start += b'"object":{"a":'
    return start + filling + b"}}}"


_DEEP: Final = _review(b"[" * _MIB + b"]" * _MIB)
_MANY: Final = _review(b"[" + b"{}," * (_MIB // 3) + b"{}]")
_WIDE: Final = _review(b'["' + b"x" * (2 * _MIB) + b'"]')
BODIES: Final = (
    _head(16 * _MIB) + b"[" * (16 * _MIB),
    _head(None) + b"10000\r\n" * 2 + b"x" * _MIB,
    _head(len(_DEEP)) + _DEEP,
    _head(len(_MANY)) + _MANY,
    _head(len(_WIDE)) + _WIDE,
    _head(3 * _MIB) + b"x" * 1000,
)


def trusting_all() -> ssl.SSLContext:
    """A client that does not ask whom it talks to."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def _again(attempt: Callable[[], Awaitable[None]]) -> None:
    while True:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, ssl.SSLError):
            await attempt()
        await asyncio.sleep(0.05)


async def _hold(port: int, context: ssl.SSLContext | None, said: bytes) -> None:
    reader, writer = await asyncio.open_connection(HOST, port, ssl=context)
    try:
        writer.write(said)
        await reader.read()
    finally:
        writer.close()


async def _flood(port: int, context: ssl.SSLContext, body: bytes) -> None:
    reader, writer = await asyncio.open_connection(HOST, port, ssl=context)
    try:
        writer.write(body)
        await writer.drain()
        async with asyncio.timeout(5):
            await reader.read(1000)
    except TimeoutError:
        pass
    finally:
        writer.close()


async def attack(port: int, seconds: float) -> None:
    """All of it at once."""
    context = trusting_all()
    silent = itertools.cycle(((None, b""), (context, b""), (context, _head(1000) + b"{"), (context, b"POST /")))
    held = [partial(_hold, port, *how) for how in itertools.islice(silent, HALF_OPEN)]
    floods = [partial(_flood, port, context, body) for body in itertools.islice(itertools.cycle(BODIES), FLOODS)]
    tasks = [asyncio.create_task(_again(attempt)) for attempt in (*held, *floods)]
    print("attacking", flush=True)
    await asyncio.wait(tasks, timeout=seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(attack(int(sys.argv[1]), float(sys.argv[2])))
