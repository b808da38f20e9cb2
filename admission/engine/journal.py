"""Checkpoint and rollback of the ledger: a journal of inverse operations.

While a trial is open, each change records its inverse. A trial remembers the length of the journal when it opens and runs the
inverses recorded since, last first, when it ends, unless it was kept. Trials nest: an outer trial reverts also the changes
that an inner trial kept. The cost of a trial is proportional to its changes, not to the size of the ledger. Called by
ledger.py, quota/tree.py and the trees; cycle/ opens trials.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping, MutableSet
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Trial:
    """An open trial. Its changes are reverted at its end unless `keep` was called."""

    __slots__ = ("kept",)

    def __init__(self) -> None:
        self.kept = False

    def keep(self) -> None:
        """Keeps the changes when the trial ends; an outer trial may still revert them."""
        self.kept = True


class Journal:
    """The inverses of the changes since the outermost open trial began.

    `recording`: a change must record its inverse, because a trial is open and no rollback is running. To be read only.
    """

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._open = 0
        self.recording = False

    def record(self, undo: Callable[[], None]) -> None:
        """Records the inverse of a change; ignored unless `recording`."""
        if self.recording:
            self._undo.append(undo)

    @contextmanager
    def trial(self) -> Iterator[Trial]:
        """Opens a trial for the duration of the context. An exception inside reverts its changes even if they were kept."""
        trial, mark = Trial(), len(self._undo)
        self._open += 1
        self.recording = True
        try:
            yield trial
        except BaseException:
            trial.kept = False
            raise
        finally:
            self._close(mark, trial.kept)

    def _close(self, mark: int, kept: bool) -> None:
        if not kept:
            self._roll_back(mark)
        self._open -= 1
        if not self._open:
            self.recording = False
            self._undo.clear()

    def _roll_back(self, mark: int) -> None:
        self.recording = False
        try:
            while len(self._undo) > mark:
                self._undo.pop()()
        finally:
            self.recording = True

    # ---- changes of mappings and sets

    def put(self, mapping: MutableMapping[K, V], key: K, value: V) -> None:
        """Sets `mapping[key] = value`, and record the inverse."""
        if self.recording:
            self._undo.append(_restorer(mapping, key))
        mapping[key] = value

    def drop(self, mapping: MutableMapping[K, V], key: K) -> None:
        """Deletes `mapping[key]` if the key is present, and record the inverse."""
        if key in mapping:
            if self.recording:
                self._undo.append(_restorer(mapping, key))
            del mapping[key]

    def add(self, members: MutableSet[K], member: K) -> None:
        """Adds the member to the set, and record the inverse."""
        if member not in members:
            if self.recording:
                self._undo.append(partial(members.discard, member))
            members.add(member)

    def file(self, index: MutableMapping[K, set[V]], at: K, member: V) -> None:
        """Adds the member to the set at `at`, and records the inverse."""
        if at not in index:
            self.put(index, at, set())
        self.add(index[at], member)

    def unfile(self, index: MutableMapping[K, set[V]], at: K, member: V) -> None:
        """Removes the member from the set at `at`, and the set if it is empty then; records the inverse."""
        members = index.get(at)
        if members is not None:
            self.discard(members, member)
            if not members:
                self.drop(index, at)

    def discard(self, members: MutableSet[K], member: K) -> None:
        """Removes the member from the set if it is present, and record the inverse."""
        if member in members:
            if self.recording:
                self._undo.append(partial(members.add, member))
            members.discard(member)


def _restorer(mapping: MutableMapping[K, V], key: K) -> Callable[[], None]:
    if key in mapping:
        return partial(mapping.__setitem__, key, mapping[key])
    return partial(mapping.__delitem__, key)
