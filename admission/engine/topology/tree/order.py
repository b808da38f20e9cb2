"""Order maintenance: integer labels that sort like their keys while keys are added and removed.

Ties between domains break by their values, and comparing integers in numpy is far cheaper than comparing tuples of
strings. Ranks 0..n-1 would all shift with each new domain, so labels leave gaps: a new key gets the middle of the gap
between its neighbours. Only when a gap is used up are all labels distributed anew, which is rare. Called by level.py.
"""

from __future__ import annotations

from bisect import bisect_left

STEP = 1 << 40
Key = tuple[str, ...]


class Order:
    """Keys in ascending order, each with its slot and its label."""

    def __init__(self) -> None:
        self._keys: list[Key] = []
        self._slots: list[int] = []
        self._labels: list[int] = []

    def insert(self, key: Key, slot: int) -> int | None:
        """Inserts a key and return its label, or None if all labels have changed (then read them from `labels`)."""
        at = bisect_left(self._keys, key)
        low = self._labels[at - 1] if at else 0
        high = self._labels[at] if at < len(self._keys) else low + 2 * STEP
        label = (low + high) // 2
        self._keys.insert(at, key)
        self._slots.insert(at, slot)
        self._labels.insert(at, label)
        if low < label < high:
            return label
        self._labels = list(range(STEP, (len(self._keys) + 1) * STEP, STEP))
        return None

    def remove(self, key: Key) -> None:
        """Removes a key."""
        at = bisect_left(self._keys, key)
        del self._keys[at], self._slots[at], self._labels[at]

    def labels(self) -> tuple[list[int], list[int]]:
        """Returns the slots and their labels, in ascending order of the keys."""
        return self._slots, self._labels

    def slots(self) -> list[int]:
        """Returns the slots in the order of their keys."""
        return self._slots
