"""The domains of one level as parallel arrays: parent, label for tie breaks, alive or free.

A domain keeps its slot (its index in the arrays) for life; slots of removed domains are reused. The arrays grow by
doubling, so adding a domain takes amortized constant time. Pod counts are computed in count.py. Called by tree.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import chain
from typing import Final

import numpy as np
import numpy.typing as npt

from admission.engine.topology.tree.order import Key, Order

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_FIRST_SIZE = 16
_NONE: Final[frozenset[int]] = frozenset()
"""The children of the many domains without any; shared to save memory."""


def grown(array: npt.NDArray[np.generic], size: int) -> npt.NDArray[np.generic]:
    """Returns the array with its last axis at least doubled to hold `size`; new cells are zero."""
    wide = np.zeros((*array.shape[:-1], max(size, 2 * array.shape[-1])), dtype=array.dtype)
    wide[..., : array.shape[-1]] = array
    return wide


class Level:
    """The domains of one level, by slot. `children` has slots of the next lower level."""

    def __init__(self) -> None:
        self.slots: dict[Key, int] = {}
        self.paths: list[Key] = []
        self.children: list[Collection[int]] = []
        self._parent: Ints = np.zeros(_FIRST_SIZE, dtype=np.int64)
        self._label: Ints = np.zeros(_FIRST_SIZE, dtype=np.int64)
        self._alive: Bools = np.zeros(_FIRST_SIZE, dtype=np.bool_)
        self._spare: list[int] = []
        self._order = Order()

    def __len__(self) -> int:
        """Returns how many domains are alive."""
        return len(self.slots)

    @property
    def size(self) -> int:
        """Returns how many slots the arrays have, alive or not."""
        return len(self.paths)

    @property
    def parent(self) -> Ints:
        """The slot of each domain's parent at the level above."""
        return self._parent[: self.size]

    @property
    def label(self) -> Ints:
        """Integers that sort like the domains' paths, by slot."""
        return self._label[: self.size]

    @property
    def alive(self) -> Bools:
        """Whether each slot has a domain, by slot."""
        return self._alive[: self.size]

    def ids(self) -> Ints:
        """Returns the slots of all domains."""
        if not self._spare:
            return np.arange(self.size, dtype=np.int64)
        return np.flatnonzero(self.alive)

    def add(self, path: Key, parent: int) -> int:
        """Creates a domain under the parent's slot and return its slot."""
        slot = self._spare.pop() if self._spare else self._extend()
        self.slots[path] = slot
        self.paths[slot] = path
        self._parent[slot] = parent
        self._alive[slot] = True
        self._set_label(path, slot)
        return slot

    def remove(self, slot: int) -> None:
        """Removes a domain."""
        path = self.paths[slot]
        self._order.remove(path)
        del self.slots[path]
        self.children[slot] = _NONE
        self._alive[slot] = False
        self._parent[slot] = 0
        self._spare.append(slot)

    def adopt(self, slot: int, child: int) -> None:
        """Adds the child to the domain."""
        children = self.children[slot]
        if isinstance(children, set):
            children.add(child)
        else:
            self.children[slot] = {child}

    def disown(self, slot: int, child: int) -> bool:
        """Removes the child from the domain. Reports whether the domain still has children."""
        children = self.children[slot]
        if isinstance(children, set):
            children.discard(child)
        return bool(children)

    def children_of(self, slots: Ints) -> Ints:
        """Returns the slots of all children, in no particular order."""
        return gather(self.children[slot] for slot in slots.tolist())

    def in_order(self, slots: Iterable[int]) -> list[int]:
        """Returns the slots sorted by path."""
        return sorted(slots, key=self._label.item)

    def _extend(self) -> int:
        slot = self.size
        self.paths.append(())
        self.children.append(_NONE)
        if slot >= len(self._parent):
            self._parent = grown(self._parent, slot + 1).astype(np.int64, copy=False)
            self._label = grown(self._label, slot + 1).astype(np.int64, copy=False)
            self._alive = grown(self._alive, slot + 1).astype(np.bool_, copy=False)
        return slot

    def _set_label(self, path: Key, slot: int) -> None:
        label = self._order.insert(path, slot)
        if label is None:
            slots, labels = self._order.labels()
            self._label[slots] = labels
        else:
            self._label[slot] = label


def gather(groups: Iterable[Iterable[int]]) -> Ints:
    """Returns the numbers of all groups as one array."""
    return np.fromiter(chain.from_iterable(groups), dtype=np.int64)
