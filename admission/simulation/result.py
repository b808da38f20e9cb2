"""What came of a simulation: workload by workload, and the figures over all. Values only; run.py makes them.

Times are seconds since the beginning, exact to the millisecond.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import fmean

from admission.engine.model import Admission, FlavorResource, Workload


class WorkloadState(StrEnum):
    """Where a workload stands at the end. Its `reason` says why for those that wait."""

    WAITING = "Waiting"
    RUNNING = "Running"
    FINISHED = "Finished"
    REJECTED = "Rejected"


@dataclass(slots=True)
class WorkloadRun:
    """One workload's way. `reason` and `message`: of its last wait; they stay when it was admitted after it.

    `refusals`: how often it was considered in vain. `preempts`: the victims that its last Preempt decision named. `evictions`:
    how often it lost its place again.
    """

    workload: Workload
    title: str
    arrived: float
    admitted: float | None = None
    ended: float | None = None
    admission: Admission | None = None
    reason: str = ""
    message: str = ""
    refusals: int = 0
    evictions: int = 0
    rejected: bool = False
    preempts: tuple[str, ...] = ()

    @property
    def state(self) -> WorkloadState:
        """See WorkloadState."""
        if self.rejected:
            return WorkloadState.REJECTED
        if self.admitted is None:
            return WorkloadState.WAITING
        return WorkloadState.RUNNING if self.ended is None else WorkloadState.FINISHED

    @property
    def pods(self) -> int:
        """As asked for."""
        return sum(pod_set.count for pod_set in self.workload.pod_sets)

    @property
    def waited(self) -> float | None:
        """From its arrival to its admission."""
        return None if self.admitted is None else self.admitted - self.arrived


@dataclass(frozen=True, slots=True)
class ResourceUse:
    """Of one flavor's resource: quota, what the nodes have, and the mean and highest use from the first admission to the end.

    `quota` is the nominal quota of all queues and cohorts; `nodes` is None for a flavor without topology.
    """

    flavor: str
    resource: str
    quota: int
    nodes: int | None
    mean: float
    highest: int

    @property
    def share(self) -> float:
        """The mean use of what may be used at most."""
        most = self.quota if self.nodes is None else min(self.quota, self.nodes)
        return self.mean / most if most else 0.0


@dataclass(frozen=True, slots=True)
class WaitFigures:
    """Of a group of workloads: how many, how many got in, and their wait in seconds (mean, median, 95th percentile, most)."""

    count: int
    admitted: int
    mean: float = 0.0
    median: float = 0.0
    p95: float = 0.0
    most: float = 0.0


@dataclass(slots=True)
class SimulationResult:
    """`runs` in order of arrival; `ended`: the last moment that was played; `peak`: the moment of the highest use."""

    runs: dict[str, WorkloadRun] = field(default_factory=dict)
    ended: float = 0.0
    peak: float = 0.0
    cycles: int = 0
    decisions: int = 0
    use: tuple[ResourceUse, ...] = ()

    def waiting(self) -> list[WorkloadRun]:
        """The workloads that were never admitted."""
        return [run for run in self.runs.values() if run.state is WorkloadState.WAITING]


def figures(runs: Iterable[WorkloadRun]) -> WaitFigures:
    """Over these."""
    given = list(runs)
    waits = sorted(run.waited for run in given if run.waited is not None)
    if not waits:
        return WaitFigures(len(given), 0)
    return WaitFigures(len(given), len(waits), fmean(waits), _quantile(waits, 0.5), _quantile(waits, 0.95), waits[-1])


def _quantile(ascending: list[float], part: float) -> float:
    """The smallest value that this part of them does not exceed."""
    return ascending[max(0, -int(-part * len(ascending) // 1) - 1)]


class UseMeter:
    """Adds up use over time, by flavor and resource."""

    def __init__(self) -> None:
        self.peak_at = self._began = 0.0
        self._now: dict[FlavorResource, int] = {}
        self._area: dict[FlavorResource, float] = {}
        self._since: dict[FlavorResource, float] = {}
        self._highest: dict[FlavorResource, int] = {}
        self._started = False
        self._running = self._most_running = 0

    def change(self, at: float, usage: Mapping[FlavorResource, int], sign: int, pods: int) -> None:
        """A workload took this (+1) or gave it back (-1)."""
        if not self._started:
            self._started, self._began, self.peak_at = True, at, at
        for pair, amount in usage.items():
            held = self._now.get(pair, 0)
            since = self._since.get(pair, at)
            self._area[pair] = self._area.get(pair, 0.0) + held * (at - since)
            self._since[pair], self._now[pair] = at, held + sign * amount
            self._highest[pair] = max(self._highest.get(pair, 0), self._now[pair])
        self._running += sign * pods

    def mark(self, at: float) -> None:
        """An instant is over: is it the fullest so far?"""
        if self._running > self._most_running:
            self._most_running, self.peak_at = self._running, at

    def use(
        self, until: float, quota: Mapping[FlavorResource, int], nodes: Mapping[FlavorResource, int]
    ) -> tuple[ResourceUse, ...]:
        """By name; `until` is the last moment that counts."""
        span = until - self._began
        found = []
        for pair in sorted(self._now):
            area = self._area[pair] + self._now[pair] * (until - self._since[pair])
            mean = area / span if span > 0 else float(self._now[pair])
            found.append(ResourceUse(*pair, quota.get(pair, 0), nodes.get(pair), mean, self._highest[pair]))
        return tuple(found)
