"""Runs a world on virtual time: workloads arrive, cycles decide, workloads end and release their capacity.

Events of one instant (a millisecond) are processed together: ends by name, then arrivals in order, then cycles until none has
anything left to do, like the controller's loop. An admitted workload runs for its own run time or for `run_for`; API writes,
pod starts and image pulls take no time. Equal worlds give equal results.

A workload that a Preempt decision evicts stops at once, is queued again, and restarts from its last checkpoint, or from the
beginning without one (attempts.py). A room maker (room_maker.py) acts between the cycles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from heapq import heappop, heappush
from math import inf

from admission.engine.cycle.cycle import CycleReport
from admission.engine.decision import Admit, Decision, Evict, Preempt, Reject, Wait
from admission.engine.model import (
    NO_TERMS,
    Admission,
    BoundPod,
    FlavorResource,
    ObjectRemoved,
    RemovedKind,
    Workload,
)
from admission.simulation.attempts import Attempt
from admission.simulation.occupancy import nodes, quota
from admission.simulation.result import SimulationResult, UseMeter, WorkloadRun
from admission.simulation.room_maker import MakerOf, RoomMaker
from admission.world.world import World

RUN_FOR = 600.0
"""Default run time of a job in seconds."""
_PATIENCE = 86_400_000
"""Milliseconds after the last event until which a room maker looks at what waits."""

Progress = Callable[[int, int, float], None]
"""Called after each instant with the number of workloads admitted at least once, the number of workloads, and the time."""

_END, _ARRIVAL = 0, 1


@dataclass(frozen=True, slots=True)
class SimulationOptions:
    """How workloads run that do not say so: for `run_for` seconds, and saving their work every `save_every` seconds.

    The simulation ends at `until` seconds. `maker` makes room for waiting workloads in addition to the rules of the queues.
    """

    run_for: float = RUN_FOR
    until: float = inf
    save_every: float = inf
    maker: MakerOf | None = None
    progress: Progress | None = None


def simulate(
    world: World, *, run_for: float = RUN_FOR, until: float = inf, progress: Progress | None = None
) -> SimulationResult:
    """Runs the world, which changes, until no event is left or `until` seconds have passed. Returns the result."""
    return simulate_with(world, SimulationOptions(run_for, until, progress=progress))


def simulate_with(world: World, options: SimulationOptions) -> SimulationResult:
    """Runs the world, which changes, and returns the result."""
    return _Simulation(world, options).play(options.until)


class _Simulation:
    def __init__(self, world: World, options: SimulationOptions) -> None:
        self.world, self._options = world, options
        self._begun = world.now
        self._outcome = SimulationResult()
        self._meter = UseMeter()
        self._events: list[tuple[int, int, str]] = []
        self._coming: dict[str, Workload] = {}
        self._attempts: dict[str, Attempt] = {}
        self._saves: list[tuple[int, str]] = []
        self._ends: dict[str, int] = {}
        self._stopped: dict[str, Attempt] = {}
        self._next_save: dict[str, int] = {}
        self._pods: dict[str, list[str]] = {}
        self._settled = self._last_event = 0
        self._maker: RoomMaker | None = None

    def play(self, until: float) -> SimulationResult:
        self._begin(until)
        last = inf if until == inf else round(until * 1000)
        moment: int | None = 0
        while moment is not None and moment <= last:
            self._instant(moment)
            moment = self._next(moment)
        self._outcome.ended = until if until != inf else self._now
        for key, attempt in self._attempts.items():
            spent = self._ms(self._outcome.ended) - attempt.begun
            self._outcome.runs[key].lost += min(attempt.overhead, max(0, spent)) / 1000
        self._outcome.peak = self._meter.peak_at
        self._outcome.use = self._meter.use(self._outcome.ended, *self._most())
        return self._outcome

    @property
    def _moment(self) -> int:
        """Milliseconds since the start."""
        return round((self.world.now - self._begun) * 1000)

    @property
    def _now(self) -> float:
        """Seconds since the start."""
        return self._moment / 1000

    # ---- start

    def _begin(self, until: float) -> None:
        if until > 0:
            self.world.unready.clear()  # starting pods are ready by then
        for event in self.world.ledger.inputs():
            if isinstance(event, BoundPod) and event.workload is not None:
                self._pods.setdefault(event.workload, []).append(event.key)
            elif isinstance(event, Workload):
                self._running_already(event)
        refused = self.world.queues.refusals()
        for workload in sorted(self.world.queues.workloads(), key=lambda w: (w.queued, w.uid, w.key)):
            run = self._enter(workload, 0.0)
            if workload.key in refused:  # refused before the start; inadmissible until something changes
                run.reason = str(refused[workload.key][0])
        for coming in self.world.arrivals:
            at = max(0, self._ms(coming.at - self._begun))
            self._coming[coming.workload.key] = coming.workload
            self._enter(coming.workload, at / 1000)
            heappush(self._events, (at, _ARRIVAL, coming.workload.key))
        self.world.arrivals = []
        self._maker = None if self._options.maker is None else self._options.maker(self)

    def _running_already(self, workload: Workload) -> None:
        run = self._enter(workload, 0.0)
        run.admitted, run.admission = 0.0, workload.admission
        self._settled += 1
        self._charge(run, +1)
        about = self.world.about.get(workload.key)
        spent = self._begun - about.since if about and about.since is not None else 0.0
        saved = workload.restart.checkpoint
        begun = -self._ms(max(0.0, spent))
        first = self._first_attempt(workload.key, begun)
        if saved is not None and saved <= self._begun:
            first = replace(first, saved_before=max(0, self._ms(saved - self._begun) - begun))
        self._start(workload.key, first)
        if self._next_save.get(workload.key) is not None and first.saved(0):
            self._note_save(workload.key, 0)  # what it saved before the start

    def _enter(self, workload: Workload, at: float) -> WorkloadRun:
        run = WorkloadRun(workload, self.world.title(workload.key), at)
        self._outcome.runs[workload.key] = run
        return run

    # ---- time

    @staticmethod
    def _ms(seconds: float) -> int:
        return round(seconds * 1000)

    def _next(self, moment: int) -> int | None:
        """Returns the next instant (ms), or None: an event, the end of a backoff, the relaxation of a topology
        request, or the start or the end of a hold of nodes.
        """
        times = [self._events[0][0]] if self._events else []
        # Only for what waits: else an idle cluster would be simulated until the last hold ends.
        known = self.world.ledger.node_holds.values() if len(self.world.queues) else ()
        changes = [one.end if one.begun or not one.queue else one.start for one in known]
        times += [max(moment + 1, self._ms(at - self._begun)) for at in changes]
        for due in (self.world.queues.next_due(), self._maker_due()):
            if due is not None and due != inf:
                times.append(max(moment + 1, -int(-(due - self._begun) * 1000 // 1)))
        return min(times, default=None)

    def _maker_due(self) -> float | None:
        """Returns when the room maker looks again: only while something waits, and not for ever when nothing else happens."""
        if self._maker is None or not len(self.world.queues):
            return None
        due = self._maker.due()
        bound = self._begun + (self._last_event + _PATIENCE) / 1000
        return due if due is not None and due <= bound else None

    def _make_room(self) -> bool:
        if self._maker is None or (due := self._maker_due()) is None or due > self.world.now:
            return False
        return self._maker.look()

    def _instant(self, moment: int) -> None:
        world = self.world
        world.now = self._begun + moment / 1000
        world.queues.past.advance(world.now)
        world.keep_time()
        while self._events and self._events[0][0] == moment:
            _, kind, key = heappop(self._events)
            self._last_event = moment
            if kind == _ARRIVAL:
                world.apply(self._coming.pop(key))
            elif self._ends.get(key) == moment:
                self._finish(key)
        self._settle()
        if self._make_room():
            self._settle()
        self._meter.mark(self._now)
        if self._options.progress is not None:
            self._options.progress(self._settled, len(self._outcome.runs), self._now)

    def _settle(self) -> None:
        """Runs cycles until no decision is left."""
        more = True
        while more:
            report = self.world.cycle()
            self._outcome.cycles += 1
            self._outcome.decisions += len(report.decisions)
            evicted = [self._act(decision) for decision in report.decisions]
            self._record_notices(report)
            more = report.more or any(evicted) or self._one_more(report)

    def _one_more(self, report: CycleReport) -> bool:
        """Requeues workloads that are admitted one by one: here pods are ready at once, so the next may be admitted."""
        if self.world.startable != 1 or not report.admitted:
            return False
        self.world.state.requeue_all()
        return True

    # ---- decisions

    def _act(self, decision: Decision) -> bool:
        """Applies a decision. Returns True if it released capacity that another cycle must evaluate."""
        run = self._outcome.runs[decision.workload]
        match decision:
            case Admit():
                self._admit(run, decision)
            case Wait():
                run.reason, run.message, run.refusals = str(decision.reason), decision.message, run.refusals + 1
                if self._maker is not None:
                    self._maker.waits(decision)
            case Reject():
                run.reason, run.message, run.rejected = str(decision.reason), decision.message, True
                self.world.apply(ObjectRemoved(RemovedKind.WORKLOAD, decision.workload))
            case Preempt() if self._maker is not None and self._maker.instead(decision):
                return True
            case Preempt():
                run.message, run.preempts = decision.message, tuple(victim.workload for victim in decision.victims)
                for victim in run.preempts:
                    self.evict(victim)
                return bool(run.preempts)
            case Evict():
                run.reason, run.message = decision.reason, decision.message
                self.evict(decision.workload)
                return True
        return False

    def _record_notices(self, report: CycleReport) -> None:
        """Records reasons of workloads that were not evaluated: blocked, or equivalent to a refused one."""
        for notice in report.notices:
            run = self._outcome.runs[notice.workload.key]
            if run.admitted is None:
                run.reason, run.message = str(notice.reason), notice.message

    def _admit(self, run: WorkloadRun, decision: Admit) -> None:
        if run.admitted is not None and run.ended is None:  # a running workload gets other nodes
            run.admission = decision.admission
            return
        if run.admitted is None:
            self._settled += 1
        left = self._replaced(run)
        run.admitted, run.admission, run.ended = self._now, decision.admission, None
        self.world.queues.past.written(run.workload, self.world.now)
        self._charge(run, +1)
        self._change(run.workload.key, self._admitted_now)
        self._start(run.workload.key, self._next_attempt(run.workload.key, left))

    def _replaced(self, run: WorkloadRun) -> Attempt | None:
        """Ends the slice that this workload replaces, whose pods continue as this one's.

        Returns their attempt, or None if it replaces none. Pods beyond its admission are not requested again.
        """
        older = self._outcome.runs.get(run.workload.replaces)
        if older is None or older.admitted is None or older.ended is not None:
            return None
        key, older.ended = older.workload.key, self._now
        self._charge(older, -1)
        self._pods.setdefault(run.workload.key, []).extend(self._pods.pop(key, ()))
        self.world.apply(ObjectRemoved(RemovedKind.WORKLOAD, key))
        self._ends.pop(key, None)
        return self._taken(key)

    # ---- work

    def _first_attempt(self, key: str, begun: int) -> Attempt:
        about, seconds = self.world.about.get(key), self._time_of(key)
        every = about.save_every if about is not None and about.save_every is not None else self._options.save_every
        left = None if seconds == inf else max(1, self._ms(seconds))
        return Attempt(begun, left, every=0 if every == inf else max(1, self._ms(every)))

    def _next_attempt(self, key: str, continued: Attempt | None) -> Attempt:
        """Returns the attempt of a workload that is admitted: its first, one after an eviction, or the replaced slice's."""
        stopped = self._stopped.pop(key, None)
        if continued is not None:
            return continued
        return self._first_attempt(key, self._moment) if stopped is None else replace(stopped, begun=self._moment)

    def _start(self, key: str, attempt: Attempt) -> None:
        self._attempts[key] = attempt
        self._ends.pop(key, None)
        if attempt.end is not None:
            at = self._ends[key] = max(self._moment + 1, attempt.end)
            heappush(self._events, (at, _END, key))
        self._note_checkpoint(key)

    def _taken(self, key: str) -> Attempt:
        """Removes and returns the attempt of a workload that no longer runs."""
        self._next_save.pop(key, None)
        return self._attempts.pop(key)

    def _stop(self, run: WorkloadRun) -> Attempt:
        """Ends the attempt of a workload that restarts; returns the next one."""
        attempt = self._taken(run.workload.key)
        run.lost += attempt.lost(self._moment) / 1000
        queue = self.world.ledger.quota.spec(run.workload.cluster_queue)
        terms = run.workload.restart.completed_by(NO_TERMS if queue is None else queue.restart)
        return attempt.again(self._moment, self._ms(terms.cost or 0))

    def _note_checkpoint(self, key: str) -> None:
        """Notes when the workload saves its work next: plans count what it loses since."""
        self._next_save.pop(key, None)
        at = self._attempts[key].next_checkpoint(self._moment) if self._options.maker is not None else None
        if at is not None:
            self._note_save(key, at)

    def _note_save(self, key: str, at: int) -> None:
        self._next_save[key] = at
        heappush(self._saves, (at, key))

    def _change(self, key: str, change: Callable[[Workload], Workload]) -> None:
        """Changes what the ledger knows of a running workload other than its usage, such as its times."""
        if (known := self.world.ledger.workload(key)) is not None:
            self.world.ledger.apply(change(known))

    def _admitted_now(self, workload: Workload) -> Workload:
        return replace(workload, reserved=self.world.now, admitted=self.world.now)

    def _relocated_now(self, workload: Workload) -> Workload:
        return replace(workload, restart=workload.restart.relocated(self.world.now))

    def _saved_at(self, workload: Workload, saved: int) -> Workload:
        return replace(workload, restart=replace(workload.restart, checkpoint=self._begun + saved / 1000))

    # ---- what a room maker may do

    def workloads(self) -> Iterator[Workload]:
        """Yields all workloads, also those that have not arrived."""
        return (run.workload for run in self._outcome.runs.values())

    def renew(self) -> None:
        """Tells the engine the last checkpoint of every running workload."""
        while self._saves and self._saves[0][0] <= self._moment:
            at, key = heappop(self._saves)
            if self._next_save.get(key) == at:
                saved = self._attempts[key].checkpoint(self._moment)
                if saved is not None:
                    self._change(key, partial(self._saved_at, saved=saved))
                self._note_checkpoint(key)

    def relocate(self, key: str, place: Admission) -> None:
        """Restarts a workload at another place, for which the ledger already charges it."""
        run = self._outcome.runs[key]
        run.admission, run.relocations = place, run.relocations + 1
        for pod in self._pods.pop(key, ()):
            self.world.apply(ObjectRemoved(RemovedKind.POD, pod))
        self._change(key, self._relocated_now)
        self._start(key, self._stop(run))

    def evict(self, key: str) -> None:
        """Stops a workload, which is queued again."""
        run = self._outcome.runs[key]
        self._stopped[key] = self._stop(run)
        self._leave(run)
        run.admitted, run.admission, run.evictions = None, None, run.evictions + 1
        self._settled -= 1
        self.world.apply(replace(run.workload, admission=None, blocked=None, not_before=0.0))

    def _time_of(self, key: str) -> float:
        about = self.world.about.get(key)
        return self._options.run_for if about is None or about.run_for is None else about.run_for

    def _charge(self, run: WorkloadRun, sign: int) -> None:
        if run.admission is not None:
            self._meter.change(self._now, run.admission.usage(), sign, run.pods)

    def _finish(self, key: str) -> None:
        run = self._outcome.runs[key]
        run.ended = self._now
        run.lost += self._taken(key).overhead / 1000
        self._leave(run)

    def _leave(self, run: WorkloadRun) -> None:
        key = run.workload.key
        self._ends.pop(key, None)
        self._charge(run, -1)
        self.world.apply(ObjectRemoved(RemovedKind.WORKLOAD, key))
        for pod in self._pods.pop(key, ()):
            self.world.apply(ObjectRemoved(RemovedKind.POD, pod))

    # ---- capacity

    def _most(self) -> tuple[dict[FlavorResource, int], dict[FlavorResource, int]]:
        """Returns nominal quota, and the capacity of the nodes of each flavor with a topology."""
        return quota(self.world.ledger), nodes(self.world.ledger)
