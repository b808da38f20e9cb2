"""Forecasts when each waiting workload starts, by replaying the queues with drawn run times.

A replay ends running workloads one after the other and admits the next of each queue by the rules of admission: quota of
queues and cohorts with borrowing and lending limits, priority, then time; a StrictFIFO queue waits for its head. Each replay
draws a run time for every workload from its estimate; the first takes the median of each. The interval of a workload goes from
its first to its last start in all replays: of `n` replays it holds in (n - 1) / (n + 1) cases if run times are as learned,
since the real start is as likely to be first or last as any other.

Fewer replays than `REPLAYS`, where very many workloads wait, have a lower confidence.

A replay knows no domains, no preemption and no later arrivals, and spends `_TRIALS` attempts after each end. So a workload
that requires a domain gets no latest start, and calibration.py widens the rest by what was missed before. Draws come from the
workload's key, so that equal inputs give equal forecasts. Callers: the controller and the benchmark.
"""

from __future__ import annotations

from bisect import insort
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import inf
from operator import itemgetter
from typing import Final
from zlib import crc32

from admission.engine.forecast.calibration import CONFIDENCE, Calibration
from admission.engine.forecast.inputs import ForecastInputs, Running, Usage, Waiting
from admission.engine.forecast.run_times import RunEstimate
from admission.engine.journal import Journal
from admission.engine.model import ClusterQueue, FlavorResource, QueueingStrategy
from admission.engine.quota.tree import QuotaTree

REPLAYS: Final = 21
"""Replays for the wanted confidence, with one more on each side."""
_LEAST_REPLAYS: Final = 3
_TRIALS: Final = 32
_BUDGET: Final = 32_000
"""Questions to the quota of all replays together, which bounds the processor time."""
_EXTREMES: Final = (1.0, 0.0)
_MASK: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class StartForecast:
    """When a workload starts, in epoch seconds; `latest` is None if no bound is known. `confidence` is that of the interval."""

    earliest: float
    latest: float | None
    confidence: float


def forecast(
    inputs: ForecastInputs,
    calibration: Calibration | None = None,
    *,
    replays: int = REPLAYS,
    pause: Callable[[], None] = lambda: None,
) -> dict[str, StartForecast]:
    """Returns the forecast of each waiting workload for which one can be made.

    `pause` is called often, so that the caller may divide the work into turns; the inputs do not change.
    """
    learned = calibration or Calibration()
    replay = _Replays(inputs, pause)
    starts: list[dict[str, float]] = []
    for number in range(max(1, replays)):
        if number >= _LEAST_REPLAYS and replay.trials * (number + 1) / number > _BUDGET:
            break
        starts.append(replay.play(number))
    confidence = min(CONFIDENCE, (len(starts) - 1) / (len(starts) + 1))
    found = {}
    for one in inputs.waiting:
        times = [each.get(one.key, inf) for each in starts]
        first, last = min(times), max(times)
        if first == inf:
            continue
        early, late = learned.widened(first, last)
        latest = None if one.placed or late == inf else inputs.now + late
        found[one.key] = StartForecast(inputs.now + early, latest, confidence)
    return found


class _Replays:
    """The replays of one moment. Times are seconds from then."""

    def __init__(self, inputs: ForecastInputs, pause: Callable[[], None]) -> None:
        self._inputs, self._pause = inputs, pause
        self._journal = Journal()
        self._quota = QuotaTree(self._journal)
        for spec in inputs.specs:
            if isinstance(spec, ClusterQueue):
                self._quota.set_queue(spec)
                pause()
            else:
                self._quota.set_cohort(spec)
        for running in inputs.running:
            self._quota.add(running.queue, running.usage)
        self._strict = {
            spec.name
            for spec in inputs.specs
            if isinstance(spec, ClusterQueue) and spec.strategy is QueueingStrategy.STRICT_FIFO
        }
        taking: list[Running | Waiting] = [*inputs.running, *inputs.waiting]
        self._trees = {one.queue: self._quota.tree_of(one.queue) for one in taking}
        known: dict[Hashable, int] = {}
        self._shapes = {one.key: known.setdefault(_shape(one), len(known)) for one in inputs.waiting}
        self._seeds = {one.key: crc32(one.key.encode()) for one in taking}
        self.trials = 0

    def play(self, number: int) -> dict[str, float]:
        """Returns the starts of one replay by workload."""
        with self._journal.trial():
            return self._play(number)

    def _play(self, number: int) -> dict[str, float]:
        now = self._inputs.now
        ends: list[tuple[float, str, str, Usage]] = []
        for run in self._inputs.running:
            if run.estimate is not None:
                spent = max(0.0, now - run.since)
                left = run.estimate.draw(self._part(run.key, number, run.estimate), spent) - spent
                ends.append((max(0.0, left), run.key, run.queue, run.usage))
        heapify(ends)
        lines: dict[str, _Line] = defaultdict(_Line)
        for one in self._inputs.waiting:
            lines[self._trees[one.queue]].put(one, self._shapes[one.key])
        later = sorted({one.not_before - now for one in self._inputs.waiting if one.not_before > now}, reverse=True)
        starts: dict[str, float] = {}
        at, changed = 0.0, set(lines)
        while True:
            for tree in sorted(changed):
                for one, usage in self._admit(lines[tree], at):
                    starts[one.key] = at
                    if one.estimate is not None:
                        ended = at + one.estimate.draw(self._part(one.key, number, one.estimate))
                        heappush(ends, (ended, one.key, one.queue, usage))
            if len(starts) == len(self._inputs.waiting) or not (ends or later):
                return starts
            at, changed = self._advance(ends, later, lines)

    def _advance(
        self,
        ends: list[tuple[float, str, str, Usage]],
        later: list[float],
        lines: dict[str, _Line],
    ) -> tuple[float, set[str]]:
        """Goes to the next moment and returns it, with the trees in which something may start."""
        self._pause()
        at = min(ends[0][0] if ends else inf, later[-1] if later else inf)
        changed: set[str] = set()
        while later and later[-1] <= at:
            later.pop()
            changed.update(lines)
        while ends and ends[0][0] <= at:
            _, _, queue, usage = heappop(ends)
            self._quota.remove(queue, usage)
            if self._trees[queue] in lines:
                changed.add(self._trees[queue])
        return at, changed

    def _admit(self, line: _Line, at: float) -> Iterator[tuple[Waiting, Usage]]:
        """Yields what starts now in a tree. Equal requests of a queue are tried once after each end."""
        closed: set[str] = set()
        free: dict[tuple[str, FlavorResource], int] = {}
        tried, position = 0, 0
        while position < len(line.heads) and tried < _TRIALS:
            one = line.heads[position][1]
            if one.queue in closed or one.not_before > self._inputs.now + at:
                position += 1
                continue
            self._pause()
            usage = self._fitting(one, free)
            if usage is None:
                tried, position = tried + 1, position + 1
                if one.queue in self._strict:
                    closed.add(one.queue)
                continue
            self._quota.add(one.queue, usage)
            free.clear()
            line.take(position)
            yield one, usage

    def _fitting(self, one: Waiting, free: dict[tuple[str, FlavorResource], int]) -> Usage | None:
        """Returns what the workload would use if it started now, None if quota does not suffice.

        `free` keeps what was asked of the quota, until that changes.
        """
        total: Usage = {}
        for part in one.choices:
            for usage in part:
                sums = {pair: total.get(pair, 0) + amount for pair, amount in usage.items()}
                if all(amount <= self._free(one.queue, pair, free) for pair, amount in sums.items()):
                    total.update(sums)
                    break
            else:
                return None
        return total

    def _free(self, queue: str, pair: FlavorResource, free: dict[tuple[str, FlavorResource], int]) -> int:
        found = free.get((queue, pair))
        if found is None:
            self.trials += 1
            found = free[queue, pair] = self._quota.available(queue, pair)
        return found

    def _part(self, key: str, number: int, estimate: RunEstimate) -> float:
        """Returns a number between 0 and 1 that is different for each workload and replay (splitmix64).

        Workloads of which only the limit is known share one: half of it, all, and nothing first.
        """
        if number == 0:
            return 0.5
        if estimate.shared and number <= len(_EXTREMES):
            return _EXTREMES[number - 1]
        mixed = (
            (0 if estimate.shared else self._seeds[key]) * 0x9E3779B97F4A7C15 + number * 0xD1B54A32D192ED03
        ) & _MASK
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return ((mixed ^ (mixed >> 31)) >> 11) / (1 << 53)


class _Line:
    """The waiting workloads of a tree. `heads` has the first of each shape, in order, with the shape."""

    def __init__(self) -> None:
        self.heads: list[tuple[tuple[int, float, str, str], Waiting, int]] = []
        self._behind: dict[int, deque[Waiting]] = {}

    def put(self, one: Waiting, shape: int) -> None:
        """Appends a workload, which comes after all others in order."""
        if shape in self._behind:
            self._behind[shape].append(one)
        else:
            self._behind[shape] = deque()
            self.heads.append((one.order, one, shape))

    def take(self, position: int) -> None:
        """Removes a head; the next of its shape takes its place in the order."""
        _, _, shape = self.heads.pop(position)
        if self._behind[shape]:
            one = self._behind[shape].popleft()
            insort(self.heads, (one.order, one, shape), key=itemgetter(0))


def _shape(one: Waiting) -> Hashable:
    return (
        one.queue,
        one.not_before,
        tuple([tuple([frozenset(usage.items()) for usage in part]) for part in one.choices]),
    )
