"""The wire of a watch: bytes to lines to events; and errors out of the server's Status objects. No IO.

A watch answers with one JSON object per line, `{"type": ..., "object": {...}}`, cut anywhere by the network. The object
stays raw here, so that only its own type's decoder ever reads it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Mapping
from typing import Final

import msgspec

from api.errors import ApiError, api_error
from api.kube.decode import decode_around

BOOKMARK: Final = "BOOKMARK"
ERROR: Final = "ERROR"


class WatchEvent(msgspec.Struct, frozen=True):
    """One line of a watch. `type` is ADDED, MODIFIED, DELETED or BOOKMARK (ERROR is raised, never handed out)."""

    type: str
    object: msgspec.Raw


class _Details(msgspec.Struct, rename="camel"):
    retry_after_seconds: float | None = None


class _Status(msgspec.Struct):
    code: int = 0
    reason: str = ""
    message: str = ""
    details: _Details | None = None


_event_decoder = msgspec.json.Decoder(WatchEvent)
_status_decoder = msgspec.json.Decoder(_Status)


class Lines:
    """Cuts a byte stream into lines. A line of many chunks is joined once, at its end, so its cost stays linear."""

    def __init__(self) -> None:
        self._open: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes, without their newline; empty ones are left out."""
        if b"\n" not in chunk:
            self._open.append(chunk)
            return []
        *whole, rest = chunk.split(b"\n")
        self._open.append(whole[0])
        whole[0] = b"".join(self._open)
        self._open = [rest] if rest else []
        return [line for line in whole if line.strip()]


async def events(chunks: AsyncIterable[bytes]) -> AsyncGenerator[WatchEvent, None]:
    """The events in a watch's body. Raises the ApiError that an ERROR event carries (Gone for 410), or of a broken line."""
    lines = Lines()
    async for chunk in chunks:
        for line in lines.feed(chunk):
            event = _event(line)
            if event.type == ERROR:
                raise status_error(bytes(event.object))
            yield event


def _event(line: bytes) -> WatchEvent:
    try:
        return decode_around(_event_decoder.decode, line)
    except msgspec.DecodeError as error:
        shown = line[:80].decode(errors="replace")
        raise ApiError(200, "MalformedWatch", f"a watch line is no event: {error}: {shown!r}") from error


def status_error(data: bytes, http_status: int = 0, retry_after: float | None = None) -> ApiError:
    """The error of a Status object. Where the body is none (a proxy's page), its beginning is the message."""
    try:
        status = _status_decoder.decode(data)
    except (msgspec.DecodeError, RecursionError):
        status = _Status(message=data[:500].decode(errors="replace").strip())
    if retry_after is None and status.details is not None:
        retry_after = status.details.retry_after_seconds
    code = http_status or status.code or 500
    return api_error(code, status.reason or "Unknown", status.message, retry_after)


def answer_error(http_status: int, headers: Mapping[str, str], data: bytes) -> ApiError:
    """The error of an HTTP answer; a Retry-After header (seconds) wins over the one in the Status."""
    header = headers.get("Retry-After", "")
    return status_error(data, http_status, float(header) if header.isdigit() else None)
