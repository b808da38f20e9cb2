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
            "moves": sum(run.relocations for run in outcome.runs.values()),
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


def _load(load: LoadFigures) -> dict[str, Any]:
    return {
        "requireDomain": {"workloads": load.gangs.count, "admitted": load.gangs.admitted, **_waits(load.gangs)},
        "others": {"workloads": load.others.count, "admitted": load.others.admitted, **_waits(load.others)},
        "meanTurnaroundOfOthers": load.turnaround,
        "finished": load.finished,
        "moves": load.relocations,
        "evictions": load.evictions,
        "lostDeviceSeconds": load.lost,
        "use": [{"flavor": flavor, "resource": resource, "share": share} for flavor, resource, share in load.use],
    }


def _waits(waits: WaitFigures) -> dict[str, float]:
    return {"mean": waits.mean, "median": waits.median, "p95": waits.p95, "longest": waits.most}


def _wire(run: WorkloadRun) -> dict[str, Any]:
    return {
        "workload": run.workload.key,
        "job": run.title,
        "clusterQueue": run.workload.cluster_queue,
        "priority": run.workload.priority,
        "pods": run.pods,
        "state": run.state,
        "arrived": run.arrived,
        "admitted": run.admitted,
        "ended": run.ended,
        "reason": run.reason,
        "message": run.message,
        "refusals": run.refusals,
        "evictions": run.evictions,
        "moves": run.relocations,
        "lostDeviceSeconds": run.lost_device_seconds,
        "preempts": list(run.preempts),
        "podSets": _places(run.admission) if run.admission else [],
    }


def _places(admission: Admission) -> list[dict[str, Any]]:
    return [
        {"name": got.name, "count": got.count, "flavors": dict(got.flavors), **_assignment(got)}
        for got in admission.pod_sets
    ]


def _assignment(pod_set: PodSetAdmission) -> dict[str, Any]:
    if pod_set.assignment is None:
        return {"levels": [], "domains": []}
    domains = [{"values": list(domain.values), "count": domain.count} for domain in pod_set.assignment.domains]
    return {"levels": list(pod_set.assignment.levels), "domains": domains}
