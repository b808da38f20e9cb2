"""Runs a world on virtual time: workloads arrive, cycles decide, workloads end and release their capacity.

Events of one instant (a millisecond) are processed together: ends by name, then arrivals in order, then cycles until none has
anything left to do, like the controller's loop. An admitted workload runs for its own run time or for `run_for`; API writes,
pod starts and image pulls take no time. Equal worlds give equal results.

A workload that a Preempt decision evicts stops at once, is queued again, and restarts from the beginning.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from heapq import heappop, heappush
from math import inf

from admission.engine.cycle.cycle import CycleReport
from admission.engine.decision import Admit, Decision, Evict, Preempt, Reject, Wait
from admission.engine.model import BoundPod, FlavorResource, ObjectRemoved, RemovedKind, Workload
from admission.simulation.occupancy import nodes, quota
from admission.simulation.result import SimulationResult, UseMeter, WorkloadRun
from admission.world.world import World

RUN_FOR = 600.0
"""Default run time of a job in seconds."""

Progress = Callable[[int, int, float], None]
"""Called after each instant with the number of workloads admitted at least once, the number of workloads, and the time."""

_END, _ARRIVAL = 0, 1


def simulate(
    world: World, *, run_for: float = RUN_FOR, until: float = inf, progress: Progress | None = None
) -> SimulationResult:
    """Runs the world, which changes, until no event is left or `until` seconds have passed. Returns the result."""
    return _Simulation(world, run_for, progress).play(until)


class _Simulation:
    def __init__(self, world: World, run_for: float, progress: Progress | None) -> None:
        self._world, self._run_for, self._progress = world, run_for, progress
        self._begun = world.now
        self._outcome = SimulationResult()
        self._meter = UseMeter()
        self._events: list[tuple[int, int, str]] = []
        self._coming: dict[str, Workload] = {}
        self._ends: dict[str, int] = {}
        self._pods: dict[str, list[str]] = {}
        self._settled = 0

    def play(self, until: float) -> SimulationResult:
        self._begin(until)
        last = inf if until == inf else round(until * 1000)
        moment: int | None = 0
        while moment is not None and moment <= last:
            self._instant(moment)
            moment = self._next(moment)
        self._outcome.ended = until if until != inf else self._now
        self._outcome.peak = self._meter.peak_at
        self._outcome.use = self._meter.use(self._outcome.ended, *self._most())
        return self._outcome

    @property
    def _now(self) -> float:
        """Seconds since the start."""
        return round((self._world.now - self._begun) * 1000) / 1000

    # ---- start

    def _begin(self, until: float) -> None:
        if until > 0:
            self._world.unready.clear()  # starting pods are ready by then
        for event in self._world.ledger.inputs():
            if isinstance(event, BoundPod) and event.workload is not None:
                self._pods.setdefault(event.workload, []).append(event.key)
            elif isinstance(event, Workload):
                self._running_already(event)
        refused = self._world.queues.refusals()
        for workload in sorted(self._world.queues.workloads(), key=lambda w: (w.queued, w.uid, w.key)):
            run = self._enter(workload, 0.0)
            if workload.key in refused:  # refused before the start; inadmissible until something changes
                run.reason = str(refused[workload.key][0])
        for coming in self._world.arrivals:
            at = max(0, self._ms(coming.at - self._begun))
            self._coming[coming.workload.key] = coming.workload
            self._enter(coming.workload, at / 1000)
            heappush(self._events, (at, _ARRIVAL, coming.workload.key))
        self._world.arrivals = []

    def _running_already(self, workload: Workload) -> None:
        run = self._enter(workload, 0.0)
        run.admitted, run.admission = 0.0, workload.admission
        self._settled += 1
        self._charge(run, +1)
        about = self._world.about.get(workload.key)
        spent = self._begun - about.since if about and about.since is not None else 0.0
        self._end_after(workload.key, max(0.0, self._time_of(workload.key) - max(0.0, spent)))

    def _enter(self, workload: Workload, at: float) -> WorkloadRun:
        run = WorkloadRun(workload, self._world.title(workload.key), at)
        self._outcome.runs[workload.key] = run
        return run

    # ---- time

    @staticmethod
    def _ms(seconds: float) -> int:
        return round(seconds * 1000)

    def _next(self, moment: int) -> int | None:
        """Returns the next instant (ms), or None: an event, the end of a backoff, the relaxation of a topology
        request, or the start or the end of an advance reservation.
        """
        due = self._world.queues.next_due()
        times = [self._events[0][0]] if self._events else []
        # Only for what waits: else an idle cluster would be simulated until the last reservation ends.
        known = self._world.ledger.reservations.values() if len(self._world.queues) else ()
        changes = [one.end if one.begun or not one.queue else one.start for one in known]
        times += [max(moment + 1, self._ms(at - self._begun)) for at in changes]
        if due is not None and due != inf:
            times.append(max(moment + 1, -int(-(due - self._begun) * 1000 // 1)))
        return min(times, default=None)

    def _instant(self, moment: int) -> None:
        world = self._world
        world.now = self._begun + moment / 1000
        world.queues.past.advance(world.now)
        world.keep_time()
        while self._events and self._events[0][0] == moment:
            _, kind, key = heappop(self._events)
            if kind == _ARRIVAL:
                world.apply(self._coming.pop(key))
            elif self._ends.get(key) == moment:
                self._finish(key)
        self._settle()
        self._meter.mark(self._now)
        if self._progress is not None:
            self._progress(self._settled, len(self._outcome.runs), self._now)

    def _settle(self) -> None:
        """Runs cycles until no decision is left."""
        more = True
        while more:
            report = self._world.cycle()
            self._outcome.cycles += 1
            self._outcome.decisions += len(report.decisions)
            evicted = [self._act(decision) for decision in report.decisions]
            self._record_notices(report)
            more = report.more or any(evicted) or self._one_more(report)

    def _one_more(self, report: CycleReport) -> bool:
        """Requeues workloads that are admitted one by one: here pods are ready at once, so the next may be admitted."""
        if self._world.startable != 1 or not report.admitted:
            return False
        self._world.state.requeue_all()
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
            case Reject():
                run.reason, run.message, run.rejected = str(decision.reason), decision.message, True
                self._world.apply(ObjectRemoved(RemovedKind.WORKLOAD, decision.workload))
            case Preempt():
                run.message, run.preempts = decision.message, tuple(victim.workload for victim in decision.victims)
                for victim in run.preempts:
                    self._evict(victim)
                return bool(run.preempts)
            case Evict():
                run.reason, run.message = decision.reason, decision.message
                self._evict(decision.workload)
                return True
        return False

    def _record_notices(self, report: CycleReport) -> None:
        """Records reasons of workloads that were not evaluated: blocked, or equivalent to a refused one."""
        for notice in report.notices:
            run = self._outcome.runs[notice.workload.key]
            if run.admitted is None:
                run.reason, run.message = str(notice.reason), notice.message

    def _admit(self, run: WorkloadRun, decision: Admit) -> None:
        if run.admitted is not None and run.ended is None:  # a running workload moves to other nodes
            run.admission = decision.admission
            return
        if run.admitted is None:
            self._settled += 1
        left = self._replaced(run)
        run.admitted, run.admission, run.ended = self._now, decision.admission, None
        self._world.queues.past.written(run.workload, self._world.now)
        self._charge(run, +1)
        self._end_after(run.workload.key, self._time_of(run.workload.key) if left is None else left)

    def _replaced(self, run: WorkloadRun) -> float | None:
        """Ends the slice that this workload replaces, whose pods continue as this one's.

        Returns their remaining seconds, or None if it replaces none. Pods beyond its admission are not requested again.
        """
        older = self._outcome.runs.get(run.workload.replaces)
        if older is None or older.admitted is None or older.ended is not None:
            return None
        key, older.ended = older.workload.key, self._now
        self._charge(older, -1)
        self._pods.setdefault(run.workload.key, []).extend(self._pods.pop(key, ()))
        self._world.apply(ObjectRemoved(RemovedKind.WORKLOAD, key))
        ends = self._ends.pop(key, None)
        return inf if ends is None else ends / 1000 - self._now

    def _time_of(self, key: str) -> float:
        about = self._world.about.get(key)
        return self._run_for if about is None or about.run_for is None else about.run_for

    def _end_after(self, key: str, seconds: float) -> None:
        if seconds != inf:
            at = self._ms(self._world.now - self._begun) + max(1, self._ms(seconds))
            self._ends[key] = at
            heappush(self._events, (at, _END, key))

    def _charge(self, run: WorkloadRun, sign: int) -> None:
        if run.admission is not None:
            self._meter.change(self._now, run.admission.usage(), sign, run.pods)

    def _finish(self, key: str) -> None:
        run = self._outcome.runs[key]
        run.ended = self._now
        self._leave(run)

    def _leave(self, run: WorkloadRun) -> None:
        key = run.workload.key
        self._ends.pop(key, None)
        self._charge(run, -1)
        self._world.apply(ObjectRemoved(RemovedKind.WORKLOAD, key))
        for pod in self._pods.pop(key, ()):
            self._world.apply(ObjectRemoved(RemovedKind.POD, pod))

    def _evict(self, key: str) -> None:
        run = self._outcome.runs[key]
        self._leave(run)
        run.admitted, run.admission, run.evictions = None, None, run.evictions + 1
        self._settled -= 1
        self._world.apply(replace(run.workload, admission=None, blocked=None, not_before=0.0))

    # ---- capacity

    def _most(self) -> tuple[dict[FlavorResource, int], dict[FlavorResource, int]]:
        """Returns nominal quota, and the capacity of the nodes of each flavor with a topology."""
        return quota(self._world.ledger), nodes(self._world.ledger)
