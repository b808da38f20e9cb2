"""Forecasts when each waiting workload starts, by replaying the queues with drawn run times.

A replay ends running workloads one after the other and admits the next of each queue by the rules of admission: quota of
queues and cohorts with borrowing and lending limits, priority, then time; a StrictFIFO queue waits for its head. A workload
that is placed on a topology also needs room on the hosts, which those that end give back (rooms.py). Each replay
draws a run time for every workload from its estimate; the first takes the median of each. The interval of a workload goes from
its first to its last start in all replays: of `n` replays it holds in (n - 1) / (n + 1) cases if run times are as learned,
since the real start is as likely to be first or last as any other.

Fewer replays than `REPLAYS` are made where very many workloads wait; calibration.py then learns that more are missed.

A replay knows no preemption, no failing nodes and no later arrivals, and spends `_TRIALS` attempts after each end;
calibration.py widens intervals by what was missed before. A workload gets no latest start if rules decide about its place
that a replay does not know (placement constraints, pod terms, hosts beside the pods), and while past intervals seldom held. A
reserved start is the latest.
Draws come from the workload's key, so that equal inputs give equal forecasts. Callers: the controller and the benchmark.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from math import inf
from operator import itemgetter
from typing import Final

import numpy as np

from admission.engine.features.forecast.agenda import Ends, Line, Started
from admission.engine.features.forecast.calibration import Calibrations, StartForecast
from admission.engine.features.forecast.draws import Draws, Run
from admission.engine.features.forecast.inputs import Choices, ForecastInputs, Running, Usage, Waiting
from admission.engine.features.forecast.rooms import Rooms, Stay, Taken
from admission.engine.features.forecast.teller import Teller
from admission.engine.journal import Journal
from admission.engine.ledger.holds import HoldKind, hold_key
from admission.engine.model import ClusterQueue, FlavorResource, QueueingStrategy
from admission.engine.quota.tree import QuotaTree

REPLAYS: Final = 21
"""Replays for the wanted confidence, with one more on each side."""
_LEAST_REPLAYS: Final = 3
_TRIALS: Final = 32
_LOOKS: Final = 16
"""Workloads that are seen to have no room cost as much as one attempt."""
_BUDGET: Final = 32_000
"""Questions to the quota of all replays together, which bounds the processor time."""
_AT_ONCE: Final = 100
"""Waiting workloads that are read between two pauses."""
_STEPS: Final = 4
"""Steps of rooms.py that take as long as such a question."""
_ENDS: Final = 2
"""Ends of workloads that take as long."""


def forecast(
    inputs: ForecastInputs,
    calibrations: Calibrations | None = None,
    *,
    replays: int = REPLAYS,
    pause: Callable[[], None] = lambda: None,
) -> dict[str, StartForecast]:
    """Returns the forecast of each waiting workload for which one can be made.

    `pause` is called often, so that the caller may divide the work into turns; the inputs do not change.
    """
    learned = calibrations or Calibrations()
    replay = _Replays(inputs, pause)
    starts: list[dict[str, float]] = []
    for number in range(max(1, replays)):
        if number >= _LEAST_REPLAYS and replay.work * (number + 1) / number > _BUDGET:
            break
        starts.append(replay.play(number))
    teller = Teller(learned, inputs.now)
    forecasts = {}
    for number, one in enumerate(inputs.waiting):
        if number % _AT_ONCE == 0:
            pause()
        times = [each.get(one.key, inf) for each in starts]
        if (first := min(times)) < inf:
            forecasts[one.key] = teller.told(one, first, max(times))
    return forecasts


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
        charged: dict[str, Usage] = {}
        for running in inputs.running:
            _add(charged.setdefault(running.queue, {}), running.usage)
        for queue, usage in charged.items():
            self._quota.add(queue, usage)
        self._strict = {
            spec.name
            for spec in inputs.specs
            if isinstance(spec, ClusterQueue) and spec.strategy is QueueingStrategy.STRICT_FIFO
        }
        self._rooms = {flavor: Rooms(hosts, pause) for flavor, hosts in inputs.hosts.items()}
        taking: list[Running | Waiting] = [*inputs.running, *inputs.waiting]
        self._trees = {queue: self._quota.tree_of(queue) for queue in sorted({one.queue for one in taking})}
        keys = {one.key: hold_key(HoldKind.PLACE, one.key) for one in inputs.waiting}
        self._held = {key: held for key, held in keys.items() if any(rooms.has(held) for rooms in self._rooms.values())}
        self._lifted: set[str] = set()
        pause()
        known: dict[Hashable, int] = {}
        self._shapes: dict[str, int] = {}
        for number, one in enumerate(inputs.waiting, 1):
            self._shapes[one.key] = known.setdefault((_shape(one), self._held.get(one.key)), len(known))
            if number % _AT_ONCE == 0:
                pause()
        runs: list[Run] = [(one.key, one.estimate, inputs.now - one.since) for one in inputs.running]
        runs += [(one.key, one.estimate, 0.0) for one in inputs.waiting]
        pause()
        self._draws = Draws(runs, pause)
        self._waiting = {one.key: number for number, one in enumerate(inputs.waiting, len(inputs.running))}
        self._by_key = np.argsort(np.array([one.key for one in inputs.running]), kind="stable")
        pause()
        self._trees_on: dict[str, set[str]] = {flavor: set() for flavor in self._rooms}
        for one in inputs.waiting:
            for choices in one.choices:
                for flavor in choices.places or ():
                    self._trees_on[flavor].add(self._trees[one.queue])
        self._wanted = {self._trees[one.queue] for one in inputs.waiting}
        self._leaving = list(self._effects())
        self._owed: dict[str, list[tuple[str, Usage]]] = defaultdict(list)
        self.trials = self._ended = 0

    def _effects(self) -> Iterator[tuple[list[tuple[Rooms, Taken]], frozenset[str]]]:
        """Yields for each running workload what its end gives back on hosts, and in which trees something may start then."""
        known: dict[tuple[str, int], frozenset[str]] = {}
        flavors = [
            (rooms, 1 << number, self._trees_on[flavor]) for number, (flavor, rooms) in enumerate(self._rooms.items())
        ]
        for number, one in enumerate(self._inputs.running):
            if number % _AT_ONCE == 0:
                self._pause()
            where, given, tree = 0, [], self._trees[one.queue]
            for rooms, bit, _ in flavors:
                if taken := rooms.taken_by(one.key):
                    given.append((rooms, taken))
                    where |= bit
            if (tree, where) not in known:
                wakes = {tree} & self._wanted
                known[tree, where] = frozenset(wakes.union(*(trees for _, bit, trees in flavors if where & bit)))
            yield given, known[tree, where]

    @property
    def work(self) -> int:
        """The work so far, in questions to the quota."""
        return self.trials + self._ended // _ENDS + sum(rooms.steps for rooms in self._rooms.values()) // _STEPS

    def play(self, number: int) -> dict[str, float]:
        """Returns the starts of one replay by workload."""
        for rooms in self._rooms.values():
            rooms.begin()
        self._owed.clear()
        self._lifted.clear()
        with self._journal.trial():
            return self._play(number)

    def _play(self, number: int) -> dict[str, float]:
        now, lasts = self._inputs.now, self._draws.of(number)
        ends = Ends(lasts[: len(self._inputs.running)], self._by_key)
        lines: dict[str, Line] = defaultdict(Line)
        for one in self._inputs.waiting:
            lines[self._trees[one.queue]].put(one, self._shapes[one.key])
        later = sorted({one.not_before - now for one in self._inputs.waiting if one.not_before > now}, reverse=True)
        starts: dict[str, float] = {}
        at, changed = 0.0, set(lines)
        while True:
            for tree in sorted(changed):
                for one, usage, stays in self._admit(tree, lines[tree], at):
                    starts[one.key] = at
                    if (left := float(lasts[self._waiting[one.key]])) < inf:
                        ends.put(at + left, one.key, Started(one.queue, usage, stays))
            if len(starts) == len(self._inputs.waiting) or (ends.next == inf and not later):
                return starts
            at, changed = self._advance(ends, later, lines)

    def _advance(self, ends: Ends, later: list[float], lines: dict[str, Line]) -> tuple[float, set[str]]:
        """Goes to the next moment and returns it, with the trees in which something may start."""
        self._pause()
        at = min(ends.next, later[-1] if later else inf)
        changed: set[str] = set()
        while later and later[-1] <= at:
            later.pop()
            changed.update(lines)
        running, started = ends.due(at)
        self._ended += len(running) + len(started)
        for number in running:
            run, (given, wakes) = self._inputs.running[number], self._leaving[number]
            for rooms, taken in given:
                rooms.give(taken)
            changed |= wakes
            self._owe(run.queue, run.usage)
        for one in started:
            for stay in one.stays:
                self._rooms[stay.flavor].end(stay)
                changed |= self._trees_on[stay.flavor]
            changed.add(self._trees[one.queue])
            self._owe(one.queue, one.usage)
        return at, changed

    def _owe(self, queue: str, usage: Usage) -> None:
        if (tree := self._trees[queue]) in self._wanted:
            self._owed[tree].append((queue, usage))

    def _admit(self, tree: str, line: Line, at: float) -> Iterator[tuple[Waiting, Usage, tuple[Stay, ...]]]:
        """Yields what starts now in a tree. Equal requests of a queue are tried once after each end."""
        closed: set[str] = set()
        free: dict[tuple[str, FlavorResource], int] = {}
        tried, position = 0, 0
        while position < len(line.heads) and tried < _TRIALS * _LOOKS:
            one = line.heads[position][1]
            if one.queue in closed or one.not_before > self._inputs.now + at:
                position += 1
                continue
            fit, held = None, one.key in self._held and one.key not in self._lifted
            full = not held and self._is_full(one)
            if not full:
                self._pause()
                fit = self._at_its_place(one, free) if held else self._fitting(one, free)
            if fit is None:
                tried, position = tried + (1 if full else _LOOKS), position + 1
                if one.queue in self._strict:
                    closed.add(one.queue)
                continue
            usage, stays = fit
            self._quota.add(one.queue, usage)
            free.clear()
            line.take(position)
            yield one, usage, stays

    def _settle(self, queue: str, free: dict[tuple[str, FlavorResource], int]) -> bool:
        """Gives back the quota of those that ended in the queue's tree, all at once; False if that was done before.

        Without it there is never more quota than with it, so it waits until quota does not suffice.
        """
        owed = self._owed.pop(self._trees[queue], None)
        if owed is None:
            return False
        total: dict[str, Usage] = {}
        for name, usage in owed:
            _add(total.setdefault(name, {}), usage)
        for name, usage in total.items():
            self._quota.remove(name, usage)
        free.clear()
        return True

    def _at_its_place(
        self, workload: Waiting, free: dict[tuple[str, FlavorResource], int]
    ) -> tuple[Usage, tuple[Stay, ...]] | None:
        """Returns the same as `_fitting` for a workload for which a place is held, which it alone may use."""
        place = self._held[workload.key]
        for rooms in self._rooms.values():
            rooms.give(rooms.taken_by(place))
        fit = self._fitting(workload, free)
        if fit is not None:
            self._lifted.add(workload.key)
            return fit
        for rooms in self._rooms.values():
            rooms.hold(place)
        return None

    def _fitting(
        self, workload: Waiting, free: dict[tuple[str, FlavorResource], int]
    ) -> tuple[Usage, tuple[Stay, ...]] | None:
        """Returns what the workload would use if it started now, and takes its room on the hosts; None if it cannot start.

        `free` keeps what was asked of the quota, until that changes.
        """
        total: Usage = {}
        stays: list[Stay] = []
        for choices in workload.choices:
            taken = self._chosen(workload.queue, choices, total, free)
            if taken is None:
                for stay in stays:
                    self._rooms[stay.flavor].end(stay)
                return None
            usage, more = taken
            stays += more
            _add(total, usage)
        return total, tuple(stays)

    def _chosen(
        self, queue: str, choices: Choices, total: Usage, free: dict[tuple[str, FlavorResource], int]
    ) -> tuple[Usage, list[Stay]] | None:
        """Returns what a placement group uses on the first flavors with quota and room, beside `total`, and takes the room."""
        refused: set[str] = set()
        while True:
            usage = self._affordable(queue, choices, total, refused, free)
            if usage is None and self._settle(queue, free):
                usage = self._affordable(queue, choices, total, refused, free)
            if not usage:
                return None if usage is None or choices.places is not None else ({}, [])
            if choices.places is None:
                return usage, []
            flavors = {flavor for flavor, _ in usage}
            place = next((choices.places[name] for name in sorted(flavors) if name in choices.places), None)
            if place is None:
                refused |= flavors
            elif not place.levels:
                return usage, []
            elif (stay := self._rooms[place.flavor].start(place)) is not None:
                return usage, [stay]
            else:
                refused.add(place.flavor)

    def _affordable(
        self,
        queue: str,
        choices: Choices,
        total: Usage,
        refused: set[str],
        free: dict[tuple[str, FlavorResource], int],
    ) -> Usage | None:
        """Returns what the placement group would use beside `total` on the first flavors with quota; None without quota."""
        affordable: Usage = {}
        for part in choices.parts:
            for usage in part:
                sums = {pair: affordable.get(pair, 0) + amount for pair, amount in usage.items()}
                if all(
                    pair[0] not in refused and total.get(pair, 0) + amount <= self._free(queue, pair, free)
                    for pair, amount in sums.items()
                ):
                    affordable.update(sums)
                    break
            else:
                return None
        return affordable

    def _is_full(self, workload: Waiting) -> bool:
        """Reports whether a placement group of the workload has no room on any flavor, as far as is known without a search."""
        for choices in workload.choices:
            if not choices.places:
                continue
            for flavor, place in choices.places.items():
                if not self._rooms[flavor].is_full(place):
                    break
            else:
                return True
        return False

    def _free(self, queue: str, pair: FlavorResource, free: dict[tuple[str, FlavorResource], int]) -> int:
        amount = free.get((queue, pair))
        if amount is None:
            self.trials += 1
            amount = free[queue, pair] = self._quota.available(queue, pair)
        return amount


def _add(into: Usage, usage: Usage) -> None:
    for pair, amount in usage.items():
        into[pair] = into.get(pair, 0) + amount


def _shape(workload: Waiting) -> Hashable:
    return workload.queue, workload.not_before, tuple(map(_choice, workload.choices))


def _choice(choice: Choices) -> Hashable:
    places = None if choice.places is None else tuple(sorted(choice.places.items(), key=itemgetter(0)))
    return tuple([tuple([frozenset(usage.items()) for usage in part]) for part in choice.parts]), places
