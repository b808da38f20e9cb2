"""Who had whom evicted, and when: a guard against evictions that never end.

Where a victim is admitted again before its preemptor, the preemptor would have it evicted again, and so on for ever. So the
same preemptor may have the same victim evicted `TIMES` times within `WITHIN` seconds; then it waits. Some rules let workloads
evict each other in turn, two or more of them (fair sharing does, between one's own queue and the cohort). There the one evicted
waits: within that time it evicts neither its preemptor nor one that the preemptor had to leave for, and so on.

Each further eviction of the same victim makes the time `GROWTH` times as long, so that evictions that come back whenever the
time is over end as well. Only a pause of `REMEMBERED` times as long makes the preemptor start anew.

One eviction counts once, however often it is decided before the victim is pending again. The memory is bounded: of more than
`MOST` pairs the oldest are forgotten. A pending workload whose priority changes is another one.

Kept by queues.py, told and asked by cycle/cycle.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf

TIMES = 2
WITHIN = 600.0
GROWTH = 4
REMEMBERED = 8
MOST_GROWTH = 10
"""So often the time grows: then it is longer than any workload waits."""
MOST = 10_000


@dataclass(frozen=True, slots=True)
class EvictedPair:
    """The last evictions of one workload for another, both by key.

    `at`: when they were decided (epoch seconds); `leaving`: the victim of the last one is still to leave; `times`: how many
    there were.
    """

    preemptor: str
    victim: str
    at: tuple[float, ...]
    leaving: bool
    times: int = 1

    @property
    def pause(self) -> float:
        """For how long (seconds) its evictions keep others back."""
        return WITHIN * float(GROWTH ** min(max(0, self.times - TIMES), MOST_GROWTH))

    @property
    def forgotten(self) -> float:
        """When it does not matter any more (epoch seconds)."""
        return self.at[-1] + REMEMBERED * self.pause


class Evictions:
    """The pairs, those evicted longest ago first."""

    def __init__(self) -> None:
        self._pairs: dict[tuple[str, str], EvictedPair] = {}
        self._leaving: dict[str, set[str]] = {}
        self._victims: dict[str, set[str]] = {}

    def evict(self, preemptor: str, victims: Iterable[str], now: float) -> None:
        """The victims are to leave for the preemptor."""
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
        """The victim has left: it waits as others do, and its next eviction is another one."""
        for preemptor in sorted(self._leaving.pop(victim, ())):
            pair = self._pairs[preemptor, victim]
            self._pairs[preemptor, victim] = replace(pair, leaving=False)

    def pause(self, preemptor: str, victim: str) -> float:
        """For how long (seconds) the preemptor's evictions of this victim keep it back; of a pair that is known."""
        return self._pairs[preemptor, victim].pause

    def too_often(self, preemptor: str, victims: Collection[str], now: float) -> tuple[str, float] | None:
        """The victim that the preemptor may not have evicted once more now, and until when (epoch seconds); None: it may.

        Of several victims the one that keeps it waiting longest.
        """
        found = None
        for victim in sorted(victims):
            pair = self._pairs.get((preemptor, victim))
            if pair is None or pair.leaving or len(pair.at) < TIMES:
                continue
            until = pair.at[0] + pair.pause
            if until > now and (found is None or until > found[1]):
                found = (victim, until)
        return found

    def in_return(self, evicted: Collection[str], victims: Mapping[str, str], now: float) -> tuple[str, float] | None:
        """The victim for which one of `evicted` had to go of late, directly or through others, and until when that counts.

        `victims`: by key, under what key each of them evicts others. None: there is no such victim.
        """
        found = None
        for victim, preemptor in sorted(victims.items()):
            until = self._since_evicted(preemptor, frozenset(evicted), now)
            if until is not None and (found is None or until > found[1]):
                found = (victim, until)
        return found

    def _since_evicted(self, preemptor: str, evicted: frozenset[str], now: float) -> float | None:
        """Until when it counts that one of `evicted` left for the preemptor: the earliest end along the way there."""
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
        """Whom it evicted, and who evicted it, does not matter any more."""
        for pair in [pair for pair in self._pairs.values() if key in (pair.preemptor, pair.victim)]:
            self._forget(pair)

    def pairs(self) -> tuple[EvictedPair, ...]:
        """All that is remembered, in order."""
        return tuple(self._pairs.values())

    def recall(self, pairs: Iterable[EvictedPair]) -> None:
        """Remember these, in order."""
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
