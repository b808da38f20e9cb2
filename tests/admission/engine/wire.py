"""Workloads and pod templates as the API server stores them."""

from __future__ import annotations

from typing import Any

from api import workloads

CREATED, LATER = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"


def template(spec: dict[str, Any] | None = None, **requests: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", "resources": {"requests": requests}}], **(spec or {})}}


def wire_workload(*pod_sets: dict[str, Any], status: dict[str, Any] | None = None, **spec: Any) -> workloads.Workload:
    return workloads.Workload.from_wire(
        {
            "metadata": {"name": "w", "namespace": "ns", "uid": "u", "creationTimestamp": CREATED},
            "spec": {"queueName": "lq", "podSets": list(pod_sets), **spec},
            "status": status or {},
        }
    )
