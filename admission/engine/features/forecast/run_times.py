"""Learned run times: how long workloads of one kind ran, as counts in buckets that grow by a fifth.

A kind is a LocalQueue, the kind of the owner, and the workload's name with numbers and generated suffixes replaced
(`name_pattern`). Few runs of a kind say little, so that an estimate falls back to all runs of the queue and owner, of the
queue, and of everything. Everything is bounded: kinds (the one that was used longest ago is forgotten), counts (halved, so
that recent runs weigh more), and the length of each text.

Callers: starts.py, run_time_records.py and the controller.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import accumulate
from math import ceil, inf, isfinite, log
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

LONGEST: Final = 10 * 365 * 86_400.0
"""Seconds of the longest run that is learned; a longer one counts as this one."""
LARGEST_COUNT: Final = 1024
"""Runs of one kind from which all its counts are halved."""
KINDS: Final = 512
"""Kinds that are kept, unless the caller says otherwise."""
ENOUGH: Final = 5
"""Runs from which a kind is believed rather than a more general one."""

_CAUTIOUS: Final = 0.95
_FEW: Final = 20
"""Runs below which the next one may well be shorter or longer than all of them."""
_GROWTH: Final = 1.2
BUCKETS: Final = ceil(log(LONGEST, _GROWTH)) + 1
"""Number of buckets; the last one holds `LONGEST`."""
TEXT: Final = 63
"""Characters of an owner and of a name pattern; a queue has twice as many."""
_ESTIMATES: Final = 4096
"""Estimates that are kept until another run is learned."""
_SUFFIXES: Final = (5, 8, 9, 10)
_NUMBER = re.compile(r"[0-9]+")


class RunKind(NamedTuple):
    """What runs are compared by: LocalQueue (`namespace/name`), the owner's kind, the name pattern. Empty means any."""

    queue: str = ""
    owner: str = ""
    name: str = ""

    def and_wider(self) -> Iterator[RunKind]:
        """Yields this kind and the more general ones, each once."""
        yield from dict.fromkeys((self, RunKind(self.queue, self.owner), RunKind(self.queue), RunKind()))


def run_kind(queue: str, owner: str, name: str) -> RunKind:
    """Returns the kind of a workload with texts of bounded length."""
    return RunKind(queue[: 2 * TEXT], owner[:TEXT], name_pattern(name))


def name_pattern(name: str) -> str:
    """Returns the name without generated suffixes and with `#` for each number: `job-train7-x1b2c` is `job-train#`."""
    parts = name[: 4 * TEXT].split("-")
    while len(parts) > 1 and _generated(parts[-1]):
        parts.pop()
    return _NUMBER.sub("#", "-".join(parts))[:TEXT]


def _generated(part: str) -> bool:
    """Reports whether a part of a name is a number, or a suffix as Kubernetes and the names of Workloads have them."""
    return part.isdigit() or (len(part) in _SUFFIXES and any(map(str.isdigit, part)))


@dataclass(slots=True)
class RunCounts:
    """The runs of one kind: counts by bucket, and the shortest and longest run in seconds."""

    counts: dict[int, int] = field(default_factory=dict)
    least: float = LONGEST
    most: float = 0.0

    @property
    def total(self) -> int:
        """The number of runs."""
        return sum(self.counts.values())

    def add(self, seconds: float) -> None:
        """Counts one run."""
        bucket = bucket_of(seconds)
        self.counts[bucket] = self.counts.get(bucket, 0) + 1
        self.least, self.most = min(self.least, seconds), max(self.most, seconds)
        if self.total > LARGEST_COUNT:
            self.counts = {each: count // 2 for each, count in self.counts.items() if count > 1}


def bucket_of(seconds: float) -> int:
    """Returns the bucket of a run time: bucket n holds those up to 1.2 to the power of n seconds."""
    return 0 if seconds <= 1 else min(BUCKETS - 1, ceil(log(seconds, _GROWTH) - 1e-9))


class RunTimes:
    """The run times of all kinds."""

    def __init__(self, limit: int = KINDS) -> None:
        self._limit = max(1, limit)
        self._kinds: dict[RunKind, RunCounts] = {}
        self._estimates: dict[tuple[RunKind, float | None], RunEstimate | None] = {}
        self._by_runs: dict[int, RunEstimate] = {}

    def __len__(self) -> int:
        return len(self._kinds)

    def kinds(self) -> Iterator[tuple[RunKind, RunCounts]]:
        """Yields all kinds, the one that was used longest ago first."""
        yield from self._kinds.items()

    def put(self, kind: RunKind, runs: RunCounts) -> None:
        """Replaces what is known of a kind, which becomes the one that was used last."""
        self._kinds.pop(kind, None)
        self._kinds[kind] = runs
        self._changed()
        self._forget()

    def clear(self) -> None:
        """Forgets all kinds."""
        self._kinds.clear()
        self._changed()

    def record(self, kind: RunKind, seconds: float) -> None:
        """Counts a run for its kind and all wider ones. A time that is negative or no number is ignored."""
        if not isfinite(seconds) or seconds < 0:
            return
        for each in kind.and_wider():
            runs = self._kinds.pop(each, None) or RunCounts()
            runs.add(min(seconds, LONGEST))
            self._kinds[each] = runs
        self._changed()
        self._forget()

    def _changed(self) -> None:
        self._estimates.clear()
        self._by_runs.clear()

    def _forget(self) -> None:
        while len(self._kinds) > self._limit:
            del self._kinds[next(iter(self._kinds))]

    def guess(self, kind: RunKind) -> float | None:
        """Returns the seconds within which 95 of 100 such runs ended, rounded up to the end of a bucket.

        None with fewer than `ENOUGH` runs of this kind or a wider one of the same queue.
        """
        for each in kind.and_wider():
            runs = self._kinds.get(each)
            if each.queue and runs is not None and runs.total >= ENOUGH:
                return float(ceil(_GROWTH ** bucket_of(RunEstimate.of(runs).draw(_CAUTIOUS))))
        return None

    def estimate(self, kind: RunKind, limit: float | None = None) -> RunEstimate | None:
        """Returns what is known about a run of this kind, None if nothing is.

        `limit` is the workload's time limit in seconds: it never runs longer. Without learned runs it is taken to run up to
        its limit.
        """
        known = (kind, limit)
        if known not in self._estimates:
            if len(self._estimates) >= _ESTIMATES:
                self._estimates.clear()
            self._estimates[known] = self._estimate(kind, limit)
        return self._estimates[known]

    def _estimate(self, kind: RunKind, limit: float | None) -> RunEstimate | None:
        if limit is not None:
            learned = self.estimate(kind)
            return RunEstimate.within(limit) if learned is None else replace(learned, limit=limit)
        counts: RunCounts | None = None
        for each in kind.and_wider():
            runs = self._kinds.get(each)
            if runs is not None and (counts is None or counts.total < ENOUGH):
                counts = runs
        return None if counts is None else self._of(counts)

    def _of(self, runs: RunCounts) -> RunEstimate:
        """Returns the estimate from these runs: one object for all workloads that go by them."""
        key = id(runs)
        if key not in self._by_runs:
            self._by_runs[key] = RunEstimate.of(runs)
        return self._by_runs[key]


@dataclass(frozen=True, slots=True)
class RunEstimate:
    """The distribution of one workload's run time in seconds. No draw is below the least, or above the most and the limit."""

    ranges: tuple[tuple[float, float], ...]
    """The buckets with runs, ascending."""
    shares: tuple[float, ...]
    """The part of the runs up to the end of each bucket; the last is 1."""
    least: float
    """The shortest run that is drawn."""
    most: float
    """The longest run that is drawn."""
    limit: float | None = None
    """The workload's time limit, or None."""
    wide: float = 0.0
    """0 unless the runs are few, so that the next may be shorter or longer than all of them."""
    shared: bool = False
    """Whether nothing but the limit is known, so that all such workloads of a replay use the same part of theirs."""

    @classmethod
    def of(cls, runs: RunCounts, limit: float | None = None) -> RunEstimate:
        """Returns the distribution of these runs."""
        buckets, total = sorted(runs.counts), runs.total
        sums = accumulate(runs.counts[bucket] for bucket in buckets)
        shares = tuple([count / total for count in sums])
        wide = 1 / (total + 1) if total < _FEW else 0.0
        ranges = tuple([(_GROWTH ** (bucket - 1) if bucket else 0.0, _GROWTH**bucket) for bucket in buckets])
        return cls(ranges, shares, runs.least, runs.most, limit, wide)

    @classmethod
    def within(cls, limit: float) -> RunEstimate:
        """Returns the estimate for a workload of which only the time limit is known."""
        most = max(0.0, limit)
        return cls(((0.0, most),), (1.0,), 0.0, most, most, shared=True)

    @classmethod
    def exactly(cls, seconds: float) -> RunEstimate:
        """Returns the estimate of what lasts for so many seconds."""
        last = max(0.0, seconds)
        return cls(((last, last),), (1.0,), last, last)

    def draw(self, part: float, spent: float = 0.0) -> float:
        """Returns the run time at `part` (0 to 1) of the runs that last longer than `spent` seconds.

        One that has outlived all runs lasts up to twice as long as it has. The answer is at least `spent`, or the limit.
        """
        limits = np.array([inf if self.limit is None else self.limit])
        return float(self.draws(np.array([part]), np.array([max(0.0, spent)]), limits)[0])

    def draws(self, parts: Floats, spent: Floats, limits: Floats) -> Floats:
        """Returns what `draw` returns for each of these parts, seconds spent and limits (infinite: none), of equal length."""
        gone = self._shares_below(spent)
        seconds: Floats = np.maximum(spent, self._at(gone + parts * (1 - gone)))
        seconds = np.where((spent > 0) & (spent >= self.most), spent * (1 + parts), seconds)
        return np.minimum(seconds, np.maximum(limits, 0.0))

    def _at(self, share: Floats) -> Floats:
        edge, shares = self.wide / 2, np.array(self.shares)
        inner = np.clip((share - edge) / (1 - 2 * edge), 0.0, 1.0)
        bucket = np.minimum(np.searchsorted(shares, inner), len(shares) - 1)
        low, high = np.array(self.ranges).T
        before = np.concatenate(([0.0], shares[:-1]))
        part = (inner - before[bucket]) / (shares - before)[bucket]
        seconds = np.clip(low[bucket] + (high - low)[bucket] * part, self.least, self.most)
        if edge:
            seconds = np.where(share < edge, self.least * (0.5 + 0.5 * share / edge), seconds)
            seconds = np.where(share > 1 - edge, self.most * (1 + (share - 1 + edge) / edge), seconds)
        return np.asarray(seconds, dtype=np.float64)

    def _shares_below(self, seconds: Floats) -> Floats:
        low, high = np.array(self.ranges).T
        shares = np.array(self.shares)
        before, bucket = np.concatenate(([0.0], shares)), np.searchsorted(high, seconds, side="right")
        inside = np.minimum(bucket, len(shares) - 1)
        width = (high - low)[inside]
        part = np.maximum(0.0, seconds - low[inside]) / np.where(width > 0, width, 1.0)
        partly: Floats = before[inside] + (shares[inside] - before[inside]) * part
        shares_below: Floats = np.where(bucket < len(shares), partly, before[-1])
        return shares_below
