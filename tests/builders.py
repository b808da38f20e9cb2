"""Builders of wire objects for tests: the shortest way to say what a test is about, everything else usual."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from api.assignment import encode
from api.names import HOSTNAME_LABEL, PODSET_LABEL, TOPOLOGY_GATE, WORKLOAD_ANNOTATION
from api.pod.pods import Pod
from api.workloads import Workload

NOW = 1_767_225_600.0
"""2026-01-01T00:00:00Z"""


def condition(kind: str, status: str = "True", reason: str = "", message: str = "") -> dict[str, Any]:
    """A condition that has held since the epoch of the tests."""
    return {
        "type": kind,
        "status": status,
        "reason": reason or kind,
        "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


def pod_template(cpu: str = "1", gpus: int = 0) -> dict[str, Any]:
    """A pod template with one container."""
    requests = {"cpu": cpu, **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    container = {"name": "main", "image": "pause", "resources": {"requests": requests}}
    return {"metadata": {}, "spec": {"restartPolicy": "Never", "containers": [container]}}


def workload(
    name: str = "wl",
    *,
    queue: str = "lq",
    count: int = 1,
    conditions: Sequence[dict[str, Any]] = (),
    domains: Sequence[tuple[tuple[str, ...], int]] | None = None,
    levels: Sequence[str] = (HOSTNAME_LABEL,),
    admitted: bool = False,
    topology_request: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    spec: dict[str, Any] | None = None,
    metadata: dict[str, Any] | None = None,
) -> Workload:
    """A Workload of one pod set `main`; `admitted` or `domains` give it an admission in ClusterQueue `cq`."""
    pod_set: dict[str, Any] = {"name": "main", "count": count, "template": pod_template()}
    if topology_request is not None:
        pod_set["topologyRequest"] = topology_request
    full: dict[str, Any] = {"conditions": list(conditions), **(status or {})}
    if admitted or domains is not None:
        psa: dict[str, Any] = {
            "name": "main",
            "flavors": {"cpu": "tas"},
            "resourceUsage": {"cpu": str(count)},
            "count": count,
        }
        if domains is not None:
            psa["topologyAssignment"] = encode(tuple(levels), list(domains)).to_wire()
        full["admission"] = {"clusterQueue": "cq", "podSetAssignments": [psa]}
        full["conditions"] += [condition("QuotaReserved"), condition("Admitted")]
    return Workload.from_wire(
        {
            "metadata": {
                "name": name,
                "namespace": "ns",
                "uid": f"uid-{name}",
                "resourceVersion": "1",
                **(metadata or {}),
            },
            "spec": {"queueName": queue, "podSets": [pod_set], **(spec or {})},
            "status": full,
        }
    )


def pod(
    name: str,
    *,
    owner: str = "wl",
    gated: bool = True,
    labels: dict[str, str] | None = None,
    selector: dict[str, str] | None = None,
    phase: str = "Pending",
    annotations: dict[str, str] | None = None,
) -> Pod:
    """A pod of pod set `main` of Workload `ns/<owner>`."""
    return msgspec.convert(
        {
            "metadata": {
                "name": name,
                "namespace": "ns",
                "uid": f"uid-{name}",
                "labels": {PODSET_LABEL: "main", **(labels or {})},
                "annotations": {WORKLOAD_ANNOTATION: owner, **(annotations or {})},
            },
            "spec": {
                "nodeSelector": selector or {},
                "schedulingGates": [{"name": TOPOLOGY_GATE}] if gated else [],
            },
            "status": {"phase": phase},
        },
        Pod,
    )
