"""Encodes answers as JSON; one with thousands of rows in turns, so that other requests need not wait for it."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from api.kube.turns import Turns

ROWS: Final = "items"
"""The field of an answer that may be long."""
_PART: Final = 200
"""Rows that are encoded at once."""


class TooLong(Exception):
    """The answer has more bytes than are allowed."""


async def encoded(answer: dict[str, Any], most: int | None = None) -> bytes:
    """Returns the answer as JSON. Raises TooLong as soon as it has more than `most` bytes."""
    rows = answer.get(ROWS)
    if not isinstance(rows, list) or len(rows) <= _PART:
        whole = msgspec.json.encode(answer)
        _check(whole, most)
        return whole
    turns, encoded_rows = Turns(), bytearray(b'{"items":[')
    for first in range(0, len(rows), _PART):
        encoded_rows += (b"," if first else b"") + msgspec.json.encode(rows[first : first + _PART])[1:-1]
        _check(encoded_rows, most)
        await turns.give_way()
    rest = msgspec.json.encode({key: value for key, value in answer.items() if key != ROWS})[1:]
    encoded_rows += b"]" + (b"," if len(rest) > 1 else b"") + rest
    _check(encoded_rows, most)
    return bytes(encoded_rows)


def _check(encoded: bytes | bytearray, most: int | None) -> None:
    if most is not None and len(encoded) > most:
        raise TooLong
