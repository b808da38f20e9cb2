"""Recent evictions by preemptor and victim: a guard against endless preemption.

If a victim is admitted again before its preemptor, the preemptor would evict it again without end. So a preemptor may evict the
same victim `TIMES` times within `WITHIN` seconds, and then waits. Some policies let workloads evict each other in a circle
(fair sharing does, between the own queue and the cohort). There the evicted workload waits: for the same time it may evict
neither its preemptor nor any workload that the preemptor was evicted for, directly or through others.

The n-th eviction of a victim extends the time to

    pause = WITHIN · GROWTH^min(max(0, n - TIMES), MOST_GROWTH)

A pair is forgotten after REMEMBERED · pause without an eviction, but not within `A_DAY`: victims may take long to leave, and a
circle may have many members, so that each pair's turn comes seldom.

An eviction counts once, however often it is decided before the victim is pending again. At most `MOST` pairs are kept; the
oldest are dropped first. If the priority of a workload changes, pending or admitted, its pairs are forgotten.

queues.py holds it; cycle/cycle.py records and asks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf

TIMES = 2
WITHIN = 600.0
GROWTH = 4
REMEMBERED = 8
A_DAY = 86_400.0
MOST_GROWTH = 10
"""The largest exponent of the growth."""
MOST = 10_000


@dataclass(frozen=True, slots=True)
class EvictedPair:
    """The recent evictions of a victim for a preemptor (keys)."""

    preemptor: str
    victim: str
    at: tuple[float, ...]
    """When they were decided (epoch seconds)."""
    leaving: bool
    """Whether the last eviction is not complete."""
    times: int = 1
    """How many there were."""

    @property
    def pause(self) -> float:
        """How long (seconds) the evictions count."""
        return WITHIN * float(GROWTH ** min(max(0, self.times - TIMES), MOST_GROWTH))

    @property
    def forgotten(self) -> float:
        """When the pair is forgotten (epoch seconds)."""
        return self.at[-1] + max(A_DAY, REMEMBERED * self.pause)


class Evictions:
    """The pairs, those evicted longest ago first."""

    def __init__(self) -> None:
        self._pairs: dict[tuple[str, str], EvictedPair] = {}
        self._leaving: dict[str, set[str]] = {}
        self._victims: dict[str, set[str]] = {}

    def evict(self, preemptor: str, victims: Iterable[str], now: float) -> None:
        """Records that the preemptor evicts these victims."""
        for victim in victims:
            known = self._pairs.pop((preemptor, victim), None)
            if known is None or (not known.leaving and known.forgotten <= now):
                known = EvictedPair(preemptor, victim, (now,), leaving=True)
            elif not known.leaving:
                known = replace(known, at=(*known.at, now)[-TIMES:], leaving=True, times=known.times + 1)
            self._keep(known)
        while self._pairs and (len(self._pairs) > MOST or self._oldest().forgotten <= now):
            self._forget(self._oldest())

    def pending(self, victim: str) -> None:
        """Records that the victim is pending again, so that its next eviction counts as a new one."""
        for preemptor in sorted(self._leaving.pop(victim, ())):
            pair = self._pairs[preemptor, victim]
            self._pairs[preemptor, victim] = replace(pair, leaving=False)

    def pause(self, preemptor: str, victim: str) -> float:
        """Returns how long (seconds) the preemptor's evictions of this victim count. KeyError if there are none."""
        return self._pairs[preemptor, victim].pause

    def too_often(self, preemptor: str, victims: Collection[str], now: float) -> tuple[str, float] | None:
        """Returns the victim that the preemptor may not evict again yet, and until when (epoch seconds); None if it may evict
        all.

        Of several the one with the longest wait.
        """
        last = None
        for victim in sorted(victims):
            pair = self._pairs.get((preemptor, victim))
            if pair is None or pair.leaving or len(pair.at) < TIMES:
                continue
            until = pair.at[0] + pair.pause
            if until > now and (last is None or until > last[1]):
                last = (victim, until)
        return last

    def evicted_for(self, evicted: Collection[str], victims: Mapping[str, str], now: float) -> tuple[str, float] | None:
        """Returns the victim for which one of `evicted` was recently evicted, directly or through others, and until when that
        counts.

        `victims`: by key, the key under which each of them evicts others. None: there is no such victim.
        """
        last = None
        for victim, preemptor in sorted(victims.items()):
            until = self._since_evicted(preemptor, frozenset(evicted), now)
            if until is not None and (last is None or until > last[1]):
                last = (victim, until)
        return last

    def _since_evicted(self, preemptor: str, evicted: frozenset[str], now: float) -> float | None:
        """Returns until when it counts that one of `evicted` left for the preemptor: the earliest end along the chain of
        evictions.
        """
        ends, line = {preemptor: inf}, [preemptor]
        for one in line:
            for victim in sorted(self._victims.get(one, ())):
                pair = self._pairs[one, victim]
                end = min(ends[one], pair.at[-1] + pair.pause)
                if end > now and victim not in ends:
                    ends[victim] = end
                    line.append(victim)
        return max((ends[key] for key in evicted if key in ends and key != preemptor), default=None)

    def forget(self, key: str) -> None:
        """Forgets all evictions by and of this workload."""
        for pair in [pair for pair in self._pairs.values() if key in (pair.preemptor, pair.victim)]:
            self._forget(pair)

    def pairs(self) -> tuple[EvictedPair, ...]:
        """Returns all pairs, those evicted longest ago first."""
        return tuple(self._pairs.values())

    def restore(self, pairs: Iterable[EvictedPair]) -> None:
        """Restores these pairs, in order."""
        for pair in pairs:
            self._keep(pair)

    def _keep(self, pair: EvictedPair) -> None:
        self._pairs[pair.preemptor, pair.victim] = pair
        self._victims.setdefault(pair.preemptor, set()).add(pair.victim)
        if pair.leaving:
            self._leaving.setdefault(pair.victim, set()).add(pair.preemptor)

    def _oldest(self) -> EvictedPair:
        return next(iter(self._pairs.values()))

    def _forget(self, pair: EvictedPair) -> None:
        del self._pairs[pair.preemptor, pair.victim]
        self._victims[pair.preemptor].discard(pair.victim)
        if not self._victims[pair.preemptor]:
            del self._victims[pair.preemptor]
        preemptors = self._leaving.get(pair.victim, set())
        preemptors.discard(pair.preemptor)
        if not preemptors:
            self._leaving.pop(pair.victim, None)
