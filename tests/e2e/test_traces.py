"""Traces of workloads on the real control plane, received by a collector."""

from __future__ import annotations

from pathlib import Path

from hack.controlplane.cluster import ControlPlane
from hack.controlplane.options import ClusterOptions
from tests.scenarios.site import Site
from tests.scenarios.stage import real
from tests.scenarios.traces import collector, follow_a_job

CONTROL_PLANE = ClusterOptions()


async def test_a_job_is_one_trace_of_three_processes(cluster: ControlPlane, tmp_path: Path) -> None:
    async with (
        collector() as found,
        real(cluster, tmp_path, {"STOWAGE_TRACING__ENDPOINT": found.endpoint}) as stage,
    ):
        site = Site(stage.kube, "traces")
        await site.open({"b1": {"r1": 2}})
        await follow_a_job(found, site)
