"""Patches whose outcome is unknown: their workload gets no new plan until it is known. Pure.

A plan made on a stale view could send two pods to the same place. An answered patch needs no waiting (its
answer is the newer view). A patch whose connection broke is pending until an event or a read shows its outcome.
"""

from __future__ import annotations

from collections.abc import Iterable

PENDING = "pending ungate operations"


class Expectations:
    """Workload key to the uids of pods whose opening is under way."""

    def __init__(self) -> None:
        self._open: dict[str, set[str]] = {}

    def expect(self, key: str, uids: Iterable[str]) -> None:
        """These pods' openings are on their way."""
        added = set(uids)
        if added:
            self._open.setdefault(key, set()).update(added)

    def observed(self, key: str, uid: str) -> None:
        """The outcome for this pod is known."""
        left = self._open.get(key)
        if left is not None:
            left.discard(uid)
            if not left:
                del self._open[key]

    def pending(self, key: str) -> frozenset[str]:
        """The pods of the workload whose outcome is unknown; none: a plan may be made."""
        return frozenset(self._open.get(key, ()))
