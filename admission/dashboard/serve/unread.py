"""Bounds the answers that clients have not read yet: a copy of each lies in its connection.

The tree of a large cluster has megabytes, and a client may keep many connections from which it reads nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from admission.serving.bounded_server import Refused

MOST_OF_ONE: Final = 64 << 20
"""Bytes of one user's answers."""
MOST: Final = 512 << 20
"""Bytes of all answers: a connection holds up to twice its answer, and the Deployment's limit is 4 GiB."""


class Unread:
    """The answers by the identity of their request, and their bytes by whose they are."""

    def __init__(self) -> None:
        self._sizes: dict[int, tuple[str, int]] = {}
        self._of: Counter[str] = Counter()

    def enter(self, request: int, share: str, size: int) -> None:
        """Adds the answer to the request `request`. Raises Refused for too many bytes beside what is unread."""
        own = self._of[share]
        if own and own + size > MOST_OF_ONE:
            text = f"{share} has not read {own} bytes of earlier answers; read them, or close their connections"
            raise Refused(429, "TooManyRequests", text)
        if self._of.total() + size > MOST and self._sizes:
            raise Refused(503, "Unavailable", "too many answers to all users have not been read")
        self._sizes[request] = share, size
        self._of[share] += size

    def leave(self, request: int) -> None:
        """Forgets the answer to the request `request`, if there is any."""
        share, size = self._sizes.pop(request, ("", 0))
        self._of[share] -= size
        if self._of[share] <= 0:
            del self._of[share]
