"""The result as JSON. Times are seconds since the start; quantities are in the engine's units (milli-CPU, bytes).

Called by the command line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from admission.engine.model import Admission, PodSetAdmission
from admission.simulation.result import SimulationResult, WorkloadRun, figures


def encoded(outcome: SimulationResult, shown: Sequence[WorkloadRun], faults: Sequence[str]) -> str:
    """Returns the result as JSON with statistics over all workloads and the entries of `shown`."""
    got = figures(outcome.runs.values())
    whole = {
        "summary": {
            "workloads": got.count,
            "admitted": got.admitted,
            "seconds": outcome.ended,
            "peak": outcome.peak,
            "cycles": outcome.cycles,
            "decisions": outcome.decisions,
            "timeToAdmission": {"mean": got.mean, "median": got.median, "p95": got.p95, "longest": got.most},
        },
        "use": [{**msgspec.to_builtins(line), "share": line.share} for line in outcome.use],
        "workloads": [_wire(one) for one in shown],
        "faults": list(faults),
    }
    return msgspec.json.format(msgspec.json.encode(whole), indent=1).decode()


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
