"""Asks the API server whose a token is (TokenReview), so that strangers cost it little.

Anybody who reaches a port can send any number of made-up tokens. Answers are remembered, refusals apart; requests with one
token ask once; and tokens that were never accepted have a budget of reviews, one for each address and one for all.
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cachetools import LRUCache, TTLCache

from api.errors import StowageError
from api.kube.client import Kube
from api.kube.resources import Resource

TOKEN_REVIEWS: Final = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", False)
_LONGEST_TOKEN: Final = 16 * 1024
_REMEMBERED: Final = 1024
_SOURCES: Final = 4096
OF_ONE: Final = 10
"""Reviews of unknown tokens at once that a client address may cause; one more every `SECONDS_OF_ONE`."""
SECONDS_OF_ONE: Final = 6.0
OF_ALL: Final = 50
"""The same for all addresses together."""
SECONDS_OF_ALL: Final = 0.2


@dataclass(frozen=True, slots=True)
class Subject:
    """A user as the API server names it. `extra` has what an authenticator or authorizer added, by key."""

    username: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def spec(self) -> dict[str, object]:
        """Returns its fields of a SubjectAccessReview."""
        given = {"uid": self.uid, "extra": {key: list(values) for key, values in self.extra}}
        named = {key: value for key, value in given.items() if value}
        return {"user": self.username, "groups": list(self.groups), **named}


class TooManyTokens(StowageError):
    """The budget for tokens that are not known is used up; the token was not reviewed."""

    def __init__(self) -> None:
        super().__init__(
            "too many unknown tokens were sent from this address, or from all together; try again in some seconds"
        )


class _Bucket:
    """Holds up to `most` reviews and gains one every `seconds`."""

    def __init__(self, most: int, seconds: float, now: float) -> None:
        self._most, self._seconds = most, seconds
        self._left, self._since = float(most), now

    def take(self, now: float) -> bool:
        """Takes one review if there is one."""
        self._left = min(float(self._most), self._left + (now - self._since) / self._seconds)
        self._since = now
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def give_back(self) -> None:
        """Returns a review."""
        self._left = min(float(self._most), self._left + 1)


class _Budget:
    """The reviews of unknown tokens that are left, by address and in all."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._of_all = _Bucket(OF_ALL, SECONDS_OF_ALL, clock())
        # An address that was forgotten would have a full bucket by then.
        self._of_one: TTLCache[str, _Bucket] = TTLCache(_SOURCES, OF_ONE * SECONDS_OF_ONE, clock)

    def take(self, source: str) -> None:
        """Takes a review. Raises TooManyTokens."""
        now = self._clock()
        bucket = self._of_one.get(source)
        if bucket is None:
            bucket = _Bucket(OF_ONE, SECONDS_OF_ONE, now)
        if not bucket.take(now):
            raise TooManyTokens
        self._of_one[source] = bucket
        if not self._of_all.take(now):
            bucket.give_back()
            raise TooManyTokens

    def give_back(self, source: str) -> None:
        """Returns a review: the token was accepted, or the API server did not answer."""
        self._of_all.give_back()
        if (bucket := self._of_one.get(source)) is not None:
            bucket.give_back()


class Identities:
    """Says whose a token is, and remembers each answer for `seconds`: so long a token works on after it was revoked."""

    def __init__(self, kube: Kube, seconds: float = 30.0, clock: Callable[[], float] = time.monotonic) -> None:
        # Separate slots, so that unknown clients cannot take those of other requests.
        self._kube = kube.tuned(attempts=1, timeout=5.0, concurrency=4)
        self._known: TTLCache[bytes, Subject] = TTLCache(_REMEMBERED, seconds, clock)
        # Apart, so that made-up tokens do not push those out that are accepted.
        self._refused: TTLCache[bytes, None] = TTLCache(_REMEMBERED, seconds, clock)
        self._accepted: LRUCache[bytes, None] = LRUCache(_REMEMBERED)
        """Tokens that were accepted once. Strangers do not have them, so that they need no budget when asked about again."""
        self._budget = _Budget(clock)
        self._asking: dict[bytes, asyncio.Task[Subject | None]] = {}

    async def of(self, token: str, source: str = "") -> Subject | None:
        """Returns the token's user, None if the API server does not accept it. `source` is the address of the client.

        Raises TooManyTokens, ApiError and TimeoutError.
        """
        if not 0 < len(token) <= _LONGEST_TOKEN:
            return None
        key = hashlib.sha256(token.encode(errors="replace")).digest()
        if (subject := self._known.get(key)) is not None or key in self._refused:
            return subject
        task = self._asking.get(key)
        if task is None:
            # Owned by `_asking` until it ends: a client that leaves does not end it for the others.
            task = self._asking[key] = asyncio.create_task(self._reviewed(key, token, _network(source)))
            task.add_done_callback(lambda _: self._asking.pop(key, None))
        return await asyncio.shield(task)

    async def _reviewed(self, key: bytes, token: str, source: str) -> Subject | None:
        counts = key not in self._accepted
        if counts:
            self._budget.take(source)
        refused = False
        try:
            subject = await _user(self._kube, token)
            refused = subject is None
        finally:
            if counts and not refused:
                self._budget.give_back(source)
        if subject is None:
            self._refused[key] = None
            self._accepted.pop(key, None)
        else:
            self._known[key] = subject
            self._accepted[key] = None
        return subject


def _network(source: str) -> str:
    """Returns what one client can choose addresses from: of IPv6 a network of 64 bits."""
    try:
        address = ipaddress.ip_address(source.partition("%")[0])
    except ValueError:
        return source
    return source if address.version == 4 else str(ipaddress.ip_network(f"{address}/64", strict=False))


async def _user(kube: Kube, token: str) -> Subject | None:
    body = {
        "apiVersion": TOKEN_REVIEWS.api_version,
        "kind": TOKEN_REVIEWS.kind,
        "metadata": {},
        "spec": {"token": token},
    }
    review = await kube.create(TOKEN_REVIEWS, body)
    status = review.get("status") or {}
    user = status.get("user") or {}
    if not status.get("authenticated") or not user.get("username"):
        return None
    extra = tuple(sorted((key, tuple(values)) for key, values in (user.get("extra") or {}).items()))
    return Subject(user["username"], tuple(user.get("groups") or ()), user.get("uid") or "", extra)
