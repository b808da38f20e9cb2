"""Checkpoint and rollback: the journal of how to take each change back.

Each change of the ledger records its inverse here; while no trial is open nothing is kept. A trial
remembers where the journal stood when it was opened; at its end the inverses are run, last first, unless it was kept.
Trials nest: what an inner trial keeps, the outer one can still take back. A trial costs as much as was changed in it,
never as much as there is. Called by ledger.py, quota/tree.py and the trees; opened by cycle/.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping, MutableSet
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Trial:
    """An open trial. Its changes are taken back when it ends, unless `keep` was called."""

    __slots__ = ("kept",)

    def __init__(self) -> None:
        self.kept = False

    def keep(self) -> None:
        """Let the changes stand (as far as an outer trial lets them)."""
        self.kept = True


class Journal:
    """The inverses of the changes since the outermost open trial began."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._open = 0
        self._undoing = False

    @property
    def recording(self) -> bool:
        """Whether a change must leave its inverse (a trial is open, and it is not itself a taking back)."""
        return self._open > 0 and not self._undoing

    def record(self, undo: Callable[[], None]) -> None:
        """Keep the inverse of a change just made or about to be made."""
        if self.recording:
            self._undo.append(undo)

    @contextmanager
    def trial(self) -> Iterator[Trial]:
        """Open a trial; an exception inside takes its changes back as well."""
        trial, mark = Trial(), len(self._undo)
        self._open += 1
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
            self._undo.clear()

    def _roll_back(self, mark: int) -> None:
        self._undoing = True
        try:
            while len(self._undo) > mark:
                self._undo.pop()()
        finally:
            self._undoing = False

    # ---- the two containers that state is made of

    def put(self, mapping: MutableMapping[K, V], key: K, value: V) -> None:
        """`mapping[key] = value`, undoable."""
        if self.recording:
            self._undo.append(_restorer(mapping, key))
        mapping[key] = value

    def drop(self, mapping: MutableMapping[K, V], key: K) -> None:
        """`del mapping[key]` if it is there, undoable."""
        if key in mapping:
            if self.recording:
                self._undo.append(_restorer(mapping, key))
            del mapping[key]

    def add(self, members: MutableSet[K], member: K) -> None:
        """`members.add(member)`, undoable."""
        if member not in members:
            if self.recording:
                self._undo.append(partial(members.discard, member))
            members.add(member)

    def discard(self, members: MutableSet[K], member: K) -> None:
        """`members.discard(member)`, undoable."""
        if member in members:
            if self.recording:
                self._undo.append(partial(members.add, member))
            members.discard(member)


def _restorer(mapping: MutableMapping[K, V], key: K) -> Callable[[], None]:
    if key in mapping:
        return partial(mapping.__setitem__, key, mapping[key])
    return partial(mapping.__delitem__, key)
