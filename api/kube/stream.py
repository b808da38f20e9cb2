"""The wire format of a watch: bytes to lines to events; and errors from Status objects. No IO.

A watch returns one JSON object per line, `{"type": ..., "object": {...}}`, in chunks of any size. The object stays undecoded,
so that only the decoder of its type reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from api.errors import ApiError, api_error
from api.kube.decode import decode_around

BOOKMARK: Final = "BOOKMARK"
ERROR: Final = "ERROR"


class WatchEvent(msgspec.Struct, frozen=True):
    """One event of a watch. `type` is ADDED, MODIFIED, DELETED or BOOKMARK; ERROR is raised instead."""

    type: str
    object: msgspec.Raw


class _ErrorDetails(msgspec.Struct, rename="camel"):
    retry_after_seconds: float | None = None


class _ErrorStatus(msgspec.Struct):
    code: int = 0
    reason: str = ""
    message: str = ""
    details: _ErrorDetails | None = None


_event_decoder = msgspec.json.Decoder(WatchEvent)
_status_decoder = msgspec.json.Decoder(_ErrorStatus)


class Lines:
    """Splits a byte stream into lines. A line of many chunks is joined once, so its cost is linear."""

    def __init__(self) -> None:
        self._open: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """Returns the lines that this chunk completes, without newlines and empty lines."""
        if b"\n" not in chunk:
            self._open.append(chunk)
            return []
        *whole, rest = chunk.split(b"\n")
        self._open.append(whole[0])
        whole[0] = b"".join(self._open)
        self._open = [rest] if rest else []
        return [line for line in whole if line.strip()]


class Events:
    """Splits a watch's body into events."""

    def __init__(self) -> None:
        self._lines = Lines()

    def feed(self, chunk: bytes) -> Iterator[WatchEvent]:
        """Yields the events that this chunk completes. Raises the error of an ERROR event (Gone for 410) or of a bad line."""
        for line in self._lines.feed(chunk):
            event = _event(line)
            if event.type == ERROR:
                raise status_error(bytes(event.object))
            yield event


def _event(line: bytes) -> WatchEvent:
    try:
        return decode_around(_event_decoder.decode, line)
    except msgspec.DecodeError as error:
        shown = line[:80].decode(errors="replace")
        raise ApiError(200, "MalformedWatch", f"a watch line is not an event: {error}: {shown!r}") from error


def status_error(data: bytes, http_status: int = 0, retry_after: float | None = None) -> ApiError:
    """Returns the error of a Status object. For another body (such as a proxy's page) its start is the message."""
    try:
        status = _status_decoder.decode(data)
    except (msgspec.DecodeError, RecursionError):
        status = _ErrorStatus(message=data[:500].decode(errors="replace").strip())
    if retry_after is None and status.details is not None:
        retry_after = status.details.retry_after_seconds
    code = http_status or status.code or 500
    return api_error(code, status.reason or "Unknown", status.message, retry_after)


def answer_error(http_status: int, headers: Mapping[str, str], data: bytes) -> ApiError:
    """Returns the error of an HTTP response. A Retry-After header (seconds) takes precedence over the Status."""
    header = headers.get("Retry-After", "")
    return status_error(data, http_status, float(header) if header.isdigit() else None)
