"""The result as JSON. Times are seconds since the start; quantities are in the engine's units (milli-CPU, bytes).

Called by the command line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from admission.engine.model import Admission, PodSetAdmission
from admission.simulation.comparison import LoadFigures, figures_of_load
from admission.simulation.result import SimulationResult, WaitFigures, WorkloadRun, figures


def encoded(
    outcome: SimulationResult,
    shown: Sequence[WorkloadRun],
    faults: Sequence[str],
    without: LoadFigures | None = None,
) -> str:
    """Returns the result as JSON with statistics over all workloads and the entries of `shown`.

    `without` are the figures of the same load without moves, for comparison.
    """
    got = figures(outcome.runs.values())
    whole: dict[str, Any] = {
        "summary": {
            "workloads": got.count,
            "admitted": got.admitted,
            "seconds": outcome.ended,
            "peak": outcome.peak,
            "cycles": outcome.cycles,
            "decisions": outcome.decisions,
            "timeToAdmission": _waits(got),
            "moves": sum(run.moves for run in outcome.runs.values()),
            "evictions": sum(run.evictions for run in outcome.runs.values()),
            "lostDeviceSeconds": sum(run.lost_device_seconds for run in outcome.runs.values()),
        },
        "use": [{**msgspec.to_builtins(line), "share": line.share} for line in outcome.use],
        "workloads": [_wire(one) for one in shown],
        "faults": list(faults),
    }
    if without is not None:
        whole["comparison"] = {"withoutMoves": _load(without), "withMoves": _load(figures_of_load(outcome))}
    return msgspec.json.format(msgspec.json.encode(whole), indent=1).decode()


def _load(got: LoadFigures) -> dict[str, Any]:
    return {
        "requireDomain": {"workloads": got.gangs.count, "admitted": got.gangs.admitted, **_waits(got.gangs)},
        "others": {"workloads": got.others.count, "admitted": got.others.admitted, **_waits(got.others)},
        "meanTurnaroundOfOthers": got.turnaround,
        "finished": got.finished,
        "moves": got.moves,
        "evictions": got.evictions,
        "lostDeviceSeconds": got.lost,
        "use": [{"flavor": flavor, "resource": resource, "share": share} for flavor, resource, share in got.use],
    }


def _waits(got: WaitFigures) -> dict[str, float]:
    return {"mean": got.mean, "median": got.median, "p95": got.p95, "longest": got.most}


def _wire(one: WorkloadRun) -> dict[str, Any]:
    return {
        "workload": one.workload.key,
        "job": one.title,
        "clusterQueue": one.workload.cluster_queue,
        "priority": one.workload.priority,
        "pods": one.pods,
        "state": one.state,
        "arrived": one.arrived,
        "admitted": one.admitted,
        "ended": one.ended,
        "reason": one.reason,
        "message": one.message,
        "refusals": one.refusals,
        "evictions": one.evictions,
        "moves": one.moves,
        "lostDeviceSeconds": one.lost_device_seconds,
        "preempts": list(one.preempts),
        "podSets": _places(one.admission) if one.admission else [],
    }


def _places(admission: Admission) -> list[dict[str, Any]]:
    return [
        {"name": got.name, "count": got.count, "flavors": dict(got.flavors), **_assignment(got)}
        for got in admission.pod_sets
    ]


def _assignment(got: PodSetAdmission) -> dict[str, Any]:
    if got.assignment is None:
        return {"levels": [], "domains": []}
    domains = [{"values": list(domain.values), "count": domain.count} for domain in got.assignment.domains]
    return {"levels": list(got.assignment.levels), "domains": domains}
