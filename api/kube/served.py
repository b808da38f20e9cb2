"""Which API versions the server serves, told by one request for all kinds that may not be installed.

optional_informer.py asks before it tries to list such a kind. Any doubt means that the version may be served.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from api.errors import StowageError
from api.kube.decode import DECODE_ERRORS

AGE: Final = 2.0
"""Seconds for which an answer is used: those that wait for their kinds ask at about the same time."""


class _Version(msgspec.Struct):
    group_version: str = msgspec.field(name="groupVersion")


class _Group(msgspec.Struct):
    versions: list[_Version]


class _Groups(msgspec.Struct):
    groups: list[_Group]


_decoder = msgspec.json.Decoder(_Groups)


class ServedVersions:
    """The versions that `/apis` names; `ask` sends the request."""

    def __init__(self, ask: Callable[[str], Awaitable[bytes]]) -> None:
        self._ask, self._lock = ask, asyncio.Lock()
        self._versions: frozenset[str] | None = None
        self._until = 0.0

    async def may_have(self, api_version: str) -> bool:
        """Reports whether objects of this apiVersion may be served; False only if the server has told that they are not."""
        if "/" not in api_version:
            return True  # the core group is elsewhere
        async with self._lock:
            if time.monotonic() >= self._until:
                self._versions = await self._told()
                self._until = time.monotonic() + AGE
        return self._versions is None or api_version in self._versions

    async def _told(self) -> frozenset[str] | None:
        try:
            groups = _decoder.decode(await self._ask("/apis")).groups
        except (StowageError, *DECODE_ERRORS):
            return None
        return frozenset(version.group_version for group in groups for version in group.versions)
