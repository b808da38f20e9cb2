"""Strangers at the webhook's port, in a process of their own: `python -m tests.attacks.flood PORT SECONDS PATH`.

They have no certificate and no rights: 225 connect and say nothing, 225 shake hands and say nothing, 450 send half a request
and wait; 64 send what is too long, too deep, endless or of too many values, again and again. To the path of conversions they
also send thousands of objects, hostile versions, and few bytes that stand for many.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import ssl
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from api.names import CONVERT_PATH, GROUP

HOST: Final = "127.0.0.1"
HALF_OPEN: Final = 900
FLOODS: Final = 64
_PATIENCE: Final = 120.0

PATH: Final = "/validate-batch-v1-job"
_MIB: Final = 1024 * 1024


def head(path: str, length: int | None) -> bytes:
    """Of a POST with a body of that length; none: in chunks."""
    body = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    return f"POST {path} HTTP/1.1\r\nHost: webhook\r\nContent-Type: application/json\r\n{body}\r\n\r\n".encode()


def _review(filling: bytes) -> bytes:
    start = b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE",'
    start += b'"object":{"a":'
    return start + filling + b"}}}"


def conversion(objects: bytes, desired: bytes = f"{GROUP}/v1beta1".encode()) -> bytes:
    """A ConversionReview with this text as its objects."""
    start = (
        b'{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1","request":{"uid":"u","desiredAPIVersion":"'
    )
    return start + desired + b'","objects":[' + objects + b"]}}"


def assigned(levels: bytes, slices: bytes, pod_sets: int = 1) -> bytes:
    """A Workload with this topologyAssignment in each pod set."""
    start = f'{{"apiVersion":"{GROUP}/v1beta2","kind":"Workload","metadata":{{}},"status":'.encode()
    pod_set = b'{"topologyAssignment":{"levels":[' + levels + b'],"slices":[' + slices + b"]}}"
    return start + b'{"admission":{"podSetAssignments":[' + b",".join([pod_set] * pod_sets) + b"]}}}"


def _domains(count: int) -> bytes:
    return b'{"domainCount":%d,"valuesPerLevel":[{"universal":"x"}],"podCounts":{"universal":1}}' % count


_DEEP: Final = b"[" * _MIB + b"]" * _MIB
_MANY: Final = b"[" + b"{}," * (_MIB // 3) + b"{}]"
_WIDE: Final = b'["' + b"x" * (2 * _MIB) + b'"]'
_SMALL: Final = f'{{"apiVersion":"{GROUP}/v1beta2","kind":"LocalQueue"}}'.encode()
_NESTED: Final = f'{{"apiVersion":"{GROUP}/v1beta2","kind":"Workload","spec":'.encode()
REVIEWS: Final = tuple(map(_review, (_DEEP, _MANY, _WIDE)))
CONVERSIONS: Final = {
    "deep": conversion(_DEEP),
    "deep-object": conversion(_NESTED + _DEEP + b"}"),
    "empty-objects": conversion(_MANY[1:-1]),
    "thousands-of-objects": conversion(b",".join([_SMALL] * 20_000)),
    "one-long-string": conversion(_WIDE[1:-1]),
    "quotes": conversion(b'{"' + b'\\"' * _MIB),
    "long-version": conversion(_SMALL, b"x" * (2 * _MIB)),
    "long-version-of-an-object": conversion(b'{"apiVersion":"' + b"x" * (2 * _MIB) + b'","kind":"Workload"}'),
    "cancelled-counts": conversion(assigned(b'"a"', _domains(2_000_000_000) + b"," + _domains(-1_999_999_999))),
    "many-pod-sets": conversion(assigned(b'"a"', _domains(100_000), 3000)),
}
"""By id; what each of them asks for is refused or bounded."""


def floods(path: str) -> Sequence[bytes]:
    """Whole requests, and some that never end."""
    bodies = CONVERSIONS.values() if path == CONVERT_PATH else REVIEWS
    return (
        head(path, 16 * _MIB) + b"[" * (16 * _MIB),
        head(path, None) + b"10000\r\n" * 2 + b"x" * _MIB,
        *(head(path, len(body)) + body for body in bodies),
        head(path, 3 * _MIB) + b"x" * 1000,
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


async def _hold(there: asyncio.Semaphore, port: int, context: ssl.SSLContext | None, message: bytes) -> None:
    reader, writer = await asyncio.open_connection(HOST, port, ssl=context)
    there.release()
    try:
        writer.write(message)
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


async def attack(port: int, seconds: float, path: str) -> None:
    """All of it at once; prints a line once most of the half-open connections are there."""
    context, there = trusting_all(), asyncio.Semaphore(0)
    silent = itertools.cycle(((None, b""), (context, b""), (context, head(path, 1000) + b"{"), (context, b"POST /")))
    held = [partial(_hold, there, port, *how) for how in itertools.islice(silent, HALF_OPEN)]
    whole = [partial(_flood, port, context, body) for body in itertools.islice(itertools.cycle(floods(path)), FLOODS)]
    tasks = [asyncio.create_task(_again(attempt)) for attempt in (*held, *whole)]
    async with asyncio.timeout(_PATIENCE):
        for _ in range(HALF_OPEN // 2):
            await there.acquire()
    print("attacking", flush=True)
    await asyncio.wait(tasks, timeout=seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(attack(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]))
