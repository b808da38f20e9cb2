"""The result of a simulation: each workload's history, and statistics over all. Values only; run.py creates them.

Times are seconds since the start, with millisecond resolution.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import fmean

from admission.engine.model import Admission, FlavorResource, Workload


class WorkloadState(StrEnum):
    """State of a workload at the end."""

    WAITING = "Waiting"
    RUNNING = "Running"
    FINISHED = "Finished"
    REJECTED = "Rejected"


@dataclass(slots=True)
class WorkloadRun:
    """The history of one workload.

    `reason` and `message` are those of its last wait, and stay after its admission. `refusals` counts Wait decisions,
    `evictions` counts evictions and `relocations` restarts at other places; `lost` is the seconds of running that these made
    useless. `preempts` names the victims of its last Preempt decision.
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
    relocations: int = 0
    lost: float = 0.0
    rejected: bool = False
    preempts: tuple[str, ...] = ()

    @property
    def state(self) -> WorkloadState:
        """The state, derived from the times."""
        if self.rejected:
            return WorkloadState.REJECTED
        if self.admitted is None:
            return WorkloadState.WAITING
        return WorkloadState.RUNNING if self.ended is None else WorkloadState.FINISHED

    @property
    def pods(self) -> int:
        """The number of requested pods."""
        return sum(pod_set.count for pod_set in self.workload.pod_sets)

    @property
    def lost_device_seconds(self) -> float:
        """The work that evictions and relocations lost, in device-seconds."""
        return self.lost * self.workload.devices

    @property
    def waited(self) -> float | None:
        """Seconds from arrival to admission; None if not admitted."""
        return None if self.admitted is None else self.admitted - self.arrived


@dataclass(frozen=True, slots=True)
class ResourceUse:
    """Use of one flavor's resource: mean and highest from the first admission to the end, in the engine's units.

    `quota` is the nominal quota of all ClusterQueues and Cohorts; `nodes` is the nodes' capacity, None without topology.
    """

    flavor: str
    resource: str
    quota: int
    nodes: int | None
    mean: float
    highest: int

    @property
    def share(self) -> float:
        """The mean use as a part of the usable capacity, which is the lesser of quota and nodes."""
        most = self.quota if self.nodes is None else min(self.quota, self.nodes)
        return self.mean / most if most else 0.0


@dataclass(frozen=True, slots=True)
class WaitFigures:
    """Statistics of a group of workloads: their number, how many were admitted, and their waits in seconds."""

    count: int
    admitted: int
    mean: float = 0.0
    median: float = 0.0
    p95: float = 0.0
    most: float = 0.0


@dataclass(slots=True)
class SimulationResult:
    """The result. `runs` are in order of arrival; `ended` is the last simulated time, `peak` the time with the most pods."""

    runs: dict[str, WorkloadRun] = field(default_factory=dict)
    ended: float = 0.0
    peak: float = 0.0
    cycles: int = 0
    decisions: int = 0
    use: tuple[ResourceUse, ...] = ()

    def waiting(self) -> list[WorkloadRun]:
        """Returns the workloads that wait at the end."""
        return [run for run in self.runs.values() if run.state is WorkloadState.WAITING]


def figures(runs: Iterable[WorkloadRun], until: float | None = None) -> WaitFigures:
    """Returns the statistics of these workloads. With `until`, those that wait then count with their wait so far."""
    given = list(runs)
    admitted = [run.waited for run in given if run.waited is not None]
    waiting = [] if until is None else [until - run.arrived for run in given if run.state is WorkloadState.WAITING]
    waits = sorted([*admitted, *waiting])
    if not waits:
        return WaitFigures(len(given), 0)
    quantiles = (_quantile(waits, 0.5), _quantile(waits, 0.95), waits[-1])
    return WaitFigures(len(given), len(admitted), fmean(waits), *quantiles)


def _quantile(ascending: list[float], part: float) -> float:
    """Returns the smallest value that is not exceeded by this part of the values."""
    return ascending[max(0, -int(-part * len(ascending) // 1) - 1)]


class UseMeter:
    """Integrates use over time, by flavor and resource."""

    def __init__(self) -> None:
        self.peak_at = self._began = 0.0
        self._now: dict[FlavorResource, int] = {}
        self._area: dict[FlavorResource, float] = {}
        self._since: dict[FlavorResource, float] = {}
        self._highest: dict[FlavorResource, int] = {}
        self._started = False
        self._running = self._most_running = 0

    def change(self, at: float, usage: Mapping[FlavorResource, int], sign: int, pods: int) -> None:
        """Records that a workload took (`sign` +1) or released (-1) usage and pods at time `at`."""
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
        """Ends an instant, and notes it as the peak if the most pods run."""
        if self._running > self._most_running:
            self._most_running, self.peak_at = self._running, at

    def use(
        self, until: float, quota: Mapping[FlavorResource, int], nodes: Mapping[FlavorResource, int]
    ) -> tuple[ResourceUse, ...]:
        """Returns the use up to the time `until`, sorted by flavor and resource."""
        span = until - self._began
        uses = []
        for pair in sorted(self._now):
            area = self._area[pair] + self._now[pair] * (until - self._since[pair])
            mean = area / span if span > 0 else float(self._now[pair])
            uses.append(ResourceUse(*pair, quota.get(pair, 0), nodes.get(pair), mean, self._highest[pair]))
        return tuple(uses)
