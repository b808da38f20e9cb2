"""Figures of a simulation, to compare two ways of making room on the same load.

Gangs here are the workloads that require a domain, as one or slice by slice. A workload that still waits at the end counts with
its wait so far, so that a simulation which leaves gangs waiting does not look better than one that starts them late.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean

from admission.engine.model import Workload
from admission.simulation.result import SimulationResult, WaitFigures, WorkloadState, figures

Selects = Callable[[Workload], bool]


@dataclass(frozen=True, slots=True)
class LoadFigures:
    """The figures of one simulation.

    `gangs` and `others` are waits until the last admission; `turnaround` is the mean seconds from arrival to end of the others
    that have finished. `lost` is in device-seconds. `use` is the mean use of each flavor's resources, 0 to 1.
    """

    gangs: WaitFigures
    others: WaitFigures
    turnaround: float
    finished: int
    relocations: int
    evictions: int
    lost: float
    use: tuple[tuple[str, str, float], ...]


def requires_domain(workload: Workload) -> bool:
    """Reports whether the workload requires a domain, as one or slice by slice."""
    return any(
        pod_set.topology is not None and (pod_set.topology.required is not None or bool(pod_set.topology.slices))
        for pod_set in workload.pod_sets
    )


def figures_of_load(outcome: SimulationResult, is_gang: Selects = requires_domain) -> LoadFigures:
    """Returns the figures of a simulation."""
    arrived = [run for run in outcome.runs.values() if run.arrived <= outcome.ended]
    runs = [run for run in arrived if run.state is not WorkloadState.REJECTED]
    gangs = [run for run in runs if is_gang(run.workload)]
    others = [run for run in runs if not is_gang(run.workload)]
    ended = [run.ended - run.arrived for run in others if run.ended is not None]
    return LoadFigures(
        figures(gangs, outcome.ended),
        figures(others, outcome.ended),
        fmean(ended) if ended else 0.0,
        sum(run.state is WorkloadState.FINISHED for run in runs),
        sum(run.relocations for run in runs),
        sum(run.evictions for run in runs),
        sum(run.lost_device_seconds for run in runs),
        tuple((line.flavor, line.resource, line.share) for line in outcome.use),
    )
