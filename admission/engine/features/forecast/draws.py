"""Draws the run times of many workloads at once.

Draws come from a workload's key and the number of the replay, so that equal inputs give equal draws. Called by starts.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Final
from zlib import crc32

import numpy as np
import numpy.typing as npt

from admission.engine.features.forecast.run_times import Floats, RunEstimate

_TOGETHER: Final = 3
"""Replays that are drawn together: with many kinds of workloads, one call of numpy for each costs more than its numbers."""
_EXTREMES: Final = (1.0, 0.0)
_MASK: Final = (1 << 64) - 1

Run = tuple[str, RunEstimate | None, float]
"""A workload: its key, what is known of its run time, and the seconds that it has run."""


class Draws:
    """The run times of these workloads, a few replays at a time."""

    def __init__(self, runs: Sequence[Run], pause: Callable[[], None]) -> None:
        self._size, self._pause = len(runs), pause
        alike: dict[int, list[int]] = {}
        for position, (_, estimate, _) in enumerate(runs):
            if estimate is not None:
                alike.setdefault(0 if estimate.shared else id(estimate.ranges), []).append(position)
        self._alike: list[_Alike] = []
        for where in alike.values():
            pause()
            self._alike.append(_Alike(runs, where))
        self._drawn: dict[int, Floats] = {}

    def of(self, replay: int) -> Floats:
        """Returns how many seconds each workload runs on in the replay; infinitely many where nothing is known.

        The first replay takes the middle. Workloads of which only the limit is known share one part of theirs: half of it, all,
        and nothing first.
        """
        if replay not in self._drawn:
            first = replay // _TOGETHER * _TOGETHER
            times = np.full((_TOGETHER, self._size), inf)
            for each in self._alike:
                times[:, each.where] = each.drawn(range(first, first + _TOGETHER))
                self._pause()
            self._drawn = dict(enumerate(times, first))
        return self._drawn[replay]


class _Alike:
    """Workloads with the same learned runs, or all of which only limits are known; `where` has their positions."""

    def __init__(self, runs: Sequence[Run], where: list[int]) -> None:
        self.where = where
        first = runs[where[0]][1]
        self._estimate = None if first is None or first.shared else first
        some = [runs[position] for position in where]
        limits = [inf if one is None or one.limit is None else max(0.0, one.limit) for _, one, _ in some]
        seeds = [0 if self._estimate is None else crc32(key.encode()) for key, _, _ in some]
        self._limits, self._seeds = np.array(limits), np.array(seeds, dtype=np.uint64)
        self._spent = np.array([max(0.0, seconds) for _, _, seconds in some])

    def drawn(self, replays: Sequence[int]) -> Floats:
        """Returns how many seconds each runs on, by replay and workload."""
        parts = np.array([_parts(self._seeds, replay, shared=self._estimate is None) for replay in replays])
        if self._estimate is None:
            left: Floats = parts * np.maximum(0.0, self._limits - self._spent)
            return left
        spent, limits = (np.tile(each, len(replays)) for each in (self._spent, self._limits))
        total = self._estimate.draws(parts.ravel(), spent, limits).reshape(parts.shape)
        return np.asarray(np.maximum(0.0, total - self._spent), dtype=np.float64)


def _parts(seeds: npt.NDArray[np.uint64], replay: int, *, shared: bool) -> Floats:
    """Returns numbers from 0 up to 1 that differ for each seed and replay (splitmix64)."""
    if replay == 0:
        return np.full(len(seeds), 0.5)
    if shared and replay <= len(_EXTREMES):
        return np.full(len(seeds), _EXTREMES[replay - 1])
    mixed = seeds * np.uint64(0x9E3779B97F4A7C15) + np.uint64(replay * 0xD1B54A32D192ED03 & _MASK)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    fractions: Floats = ((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(11)) / np.float64(1 << 53)
    return fractions
