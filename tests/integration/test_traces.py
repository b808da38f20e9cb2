"""Traces of workloads on the embedded server, received by a collector."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.site import Site
from tests.scenarios.stage import embedded
from tests.scenarios.traces import collector, follow_a_job

pytestmark = pytest.mark.stage


async def test_a_job_is_one_trace_of_three_processes(tmp_path: Path) -> None:
    async with (
        collector() as found,
        embedded(tmp_path, {"STOWAGE_TRACING__ENDPOINT": found.endpoint}) as stage,
    ):
        site = Site(stage.kube, "traces")
        await site.open({"b1": {"r1": 2}})
        await follow_a_job(found, site)
