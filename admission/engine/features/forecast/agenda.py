"""What is next in a replay: the ends of workloads in order of time, and the waiting workloads of a tree in their order.

Called by starts.py.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import deque
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf
from operator import itemgetter
from typing import Final

import numpy as np

from admission.engine.features.forecast.inputs import Usage, Waiting
from admission.engine.features.forecast.rooms import Stay
from admission.engine.features.forecast.run_times import Floats
from admission.engine.topology.tree.level import Ints

_MOMENTS: Final = 2048
"""Moments at which those that run at the start end. Of more of them, some that follow one another end with the last."""


@dataclass(frozen=True, slots=True)
class Started:
    """A workload that started in the replay: its queue, its usage, and where it is."""

    queue: str
    usage: Usage
    stays: tuple[Stay, ...]


class Ends:
    """The ends of a replay in order: of those that run at its start (their number), and of those that start in it."""

    def __init__(self, lasts: Floats, by_key: Ints) -> None:
        order = by_key[np.argsort(lasts[by_key], kind="stable")]
        order = order[: np.count_nonzero(lasts < inf)]
        together = -(-len(order) // _MOMENTS) or 1
        last = np.minimum(np.arange(len(order)) // together * together + together, len(order)) - 1
        self._numbers: list[int] = order.tolist()
        self._times: list[float] = lasts[order[last]].tolist()
        self._taken = 0
        self._heap: list[tuple[float, str, Started]] = []
        self.next = self._first()

    def put(self, at: float, key: str, started: Started) -> None:
        """Adds the end of a workload that started in the replay."""
        heappush(self._heap, (at, key, started))
        self.next = min(self.next, at)

    def due(self, at: float) -> tuple[list[int], list[Started]]:
        """Removes and returns what ends by then: numbers of those that ran at the start, and those that started in it."""
        running = self._numbers[self._taken : (taken := bisect_right(self._times, at, self._taken))]
        self._taken = taken
        started = []
        while self._heap and self._heap[0][0] <= at:
            started.append(heappop(self._heap)[2])
        self.next = self._first()
        return running, started

    def _first(self) -> float:
        first = self._times[self._taken] if self._taken < len(self._times) else inf
        return min(first, self._heap[0][0]) if self._heap else first


class Line:
    """The waiting workloads of a tree. `heads` has the first of each shape, in order, with the shape."""

    def __init__(self) -> None:
        self.heads: list[tuple[tuple[int, float, str, str], Waiting, int]] = []
        self._behind: dict[int, deque[Waiting]] = {}

    def put(self, workload: Waiting, shape: int) -> None:
        """Appends a workload, which comes after all others in order."""
        if shape in self._behind:
            self._behind[shape].append(workload)
        else:
            self._behind[shape] = deque()
            self.heads.append((workload.order, workload, shape))

    def take(self, position: int) -> None:
        """Removes a head; the next of its shape takes its place in the order."""
        _, _, shape = self.heads.pop(position)
        if self._behind[shape]:
            one = self._behind[shape].popleft()
            insort(self.heads, (one.order, one, shape), key=itemgetter(0))
