"""200 hosts, 30 gangs, random failures of everything; an auditor looks on.

`STOWAGE_CHAOS_SEED` and `STOWAGE_CHAOS_MINUTES` choose another storm for the long test.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from hack.controlplane.cluster import ControlPlane
from hack.controlplane.options import ClusterOptions
from tests.chaos.auditor import Auditor, Labels
from tests.chaos.storm import Storm, datacenter
from tests.chaos.watch import Watching
from tests.scenarios.failures import SHORT_LEASE, complaints
from tests.scenarios.loop_lag import long_steps, slowness
from tests.scenarios.site import BLOCK, GPU, RACK, Site, eventually
from tests.scenarios.stage import real

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.e2e]
CONTROL_PLANE = ClusterOptions(disable_admission=("ServiceAccount", "TaintNodesByCondition"))
SETTINGS = {**SHORT_LEASE, "STOWAGE_CLIENT__TIMEOUT": "5"}
JOBS = "/apis/batch/v1/namespaces/chaos/jobs"
ANSWERS = 420.0
"""Seconds within which all gangs run or wait, once everything has healed; a loaded machine needs some."""


@pytest.mark.long
async def test_ten_minutes(cluster: ControlPlane, tmp_path: Path) -> None:
    minutes = float(os.environ.get("STOWAGE_CHAOS_MINUTES", "10"))
    await endures(cluster, tmp_path, int(os.environ.get("STOWAGE_CHAOS_SEED", "1")), 60 * minutes)


async def endures(cluster: ControlPlane, folder: Path, seed: int, seconds: float) -> None:
    times = slowness()
    async with real(cluster, folder, SETTINGS) as stage:
        site = Site(stage.kube, "chaos")
        await site.open({})
        await asyncio.to_thread(cluster.add_nodes, datacenter(site.name))
        watching = Watching(cluster.api, Auditor(Labels((BLOCK, RACK), GPU)))
        with watching.running() as auditor:
            storm = Storm(cluster, stage.processes, site, seed)
            await storm.open()
            await eventually("all gangs run or wait", lambda: _settled(watching, storm))
            await storm.rage(seconds)
            try:
                await eventually("all gangs run or wait", lambda: _settled(watching, storm), ANSWERS)
            except AssertionError as late:
                raise AssertionError(f"seed {seed}: {late}: {watching.unfinished()}; {auditor.findings}") from None
            print(
                f"seed {seed}: {dict(storm.happened)}, {auditor.samples} samples, longest gap {watching.longest:.2f} s"
            )
            stories = "\n".join("\n  ".join((finding, *story)) for finding, story in auditor.stories.items())
            assert auditor.findings == [], f"seed {seed}: {stories}"
            assert failed_jobs(cluster) == [], f"seed {seed}: their backoffLimit is spent"
            assert auditor.samples > seconds
    assert complaints(folder) == [], f"seed {seed}"
    # By the logs, since a process that is killed loses its metrics.
    assert long_steps(folder, max(times, slowness())) == [], f"seed {seed}"


async def _settled(watching: Watching, storm: Storm) -> bool:
    return len(watching.auditor.workloads) == len(storm.gangs) and not watching.unfinished()


def failed_jobs(cluster: ControlPlane) -> list[str]:
    """Jobs that gave up."""
    return [
        job["metadata"]["name"]
        for job in cluster.api.get(JOBS)["items"]
        if any(one["type"] == "Failed" and one["status"] == "True" for one in job["status"].get("conditions", []))
    ]
