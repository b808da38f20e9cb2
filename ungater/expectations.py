"""Patches with an unknown outcome, which block further plans for their workload. Pure.

A plan from stale pods could assign two pods to one place. A patch with a response blocks nothing, because the response is the
newer pod. A patch whose connection broke stays pending until an event or a read shows its outcome.
"""

from __future__ import annotations

from collections.abc import Iterable

PENDING = "pending ungate operations"


class Expectations:
    """The uids of pods with a pending patch, by workload key."""

    def __init__(self) -> None:
        self._open: dict[str, set[str]] = {}

    def expect(self, key: str, uids: Iterable[str]) -> None:
        """Records that patches for these pods are being sent."""
        added = set(uids)
        if added:
            self._open.setdefault(key, set()).update(added)

    def observed(self, key: str, uid: str) -> None:
        """Records that the outcome for this pod is known."""
        left = self._open.get(key)
        if left is not None:
            left.discard(uid)
            if not left:
                del self._open[key]

    def pending(self, key: str) -> frozenset[str]:
        """Returns the uids of the workload's pods with an unknown outcome; a plan requires none."""
        return frozenset(self._open.get(key, ()))
