"""One tenant floods a ClusterQueue; past usage gives the other one its turn, also after a restart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from api.kube.client import PatchKind
from api.kube.resources import JOBS, LOCAL_QUEUES
from tests.scenarios.site import GPU, Site, eventually
from tests.scenarios.stage import Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")
ENVIRONMENT = {
    "STOWAGE_ADMISSION_FAIR_SHARING__USAGE_HALF_LIFE_TIME": "10m",
    "STOWAGE_ADMISSION_FAIR_SHARING__USAGE_SAMPLING_INTERVAL": "1s",
    "STOWAGE_ADMISSION_FAIR_SHARING__RESOURCE_WEIGHTS": '{"cpu": 0}',
}
BY_USAGE: dict[str, Any] = {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}}


async def local_queue(here: Site, name: str, **spec: Any) -> None:
    """A LocalQueue of the site's ClusterQueue."""
    body = {"metadata": {"name": name, "namespace": here.name}, "spec": {"clusterQueue": here.name, **spec}}
    await here.make(LOCAL_QUEUES, body)


async def past(here: Site, name: str) -> dict[str, Any]:
    """The stored history of a LocalQueue."""
    found = await here.kube.get(LOCAL_QUEUES, name, here.name)
    sharing = (found.get("status") or {}).get("fairSharing") or {}
    return dict(sharing.get("admissionFairSharingStatus") or {})


async def _has_used(here: Site, name: str) -> bool:
    return GPU in (await past(here, name)).get("consumedResources", {})


async def flooded(here: Site) -> None:
    """One job of `many` runs on all four GPUs; two more of it wait, and after them comes the first of `few`."""
    await here.open({"b": {"r": 1}}, quota=4, **BY_USAGE)
    await local_queue(here, "many")
    await local_queue(here, "few")
    await here.submit(here.job("many-0", 1, gpus=4, queue="many"))
    await here.running("many-0", 1)
    await eventually("the usage of many is stored", lambda: _has_used(here, "many"))
    for n in (1, 2):
        await here.submit(here.job(f"many-{n}", 1, gpus=4, queue="many"))
        await here.waits(f"many-{n}", "WaitingForQuota", "")
    await here.submit(here.job("few-0", 1, gpus=4, queue="few"))
    await here.waits("few-0", "WaitingForQuota", "")


async def _end(here: Site, job: str) -> None:
    await here.kube.delete(JOBS, job, here.name, propagation="Background")


async def test_the_tenant_that_used_less_comes_before_the_flood(site: Callable[[str], Site]) -> None:
    here = site("usage")
    await flooded(here)
    await _end(here, "many-0")
    await here.running("few-0", 1)
    await here.waits("many-1", "WaitingForQuota", "")


async def test_usage_survives_a_restart_and_what_others_write_does_not_count(
    stage: Stage, site: Callable[[str], Site]
) -> None:
    here = site("usage-again")
    await flooded(here)
    before = await past(here, "many")
    nonsense = {"consumedResources": {GPU: "-7"}, "lastUpdate": "2999-01-01T00:00:00Z"}
    body = {"status": {"fairSharing": {"weightedShare": 0, "admissionFairSharingStatus": nonsense}}}
    await here.kube.patch(LOCAL_QUEUES, "many", body, here.name, kind=PatchKind.MERGE, subresource="status")

    async def mended() -> bool:
        now = await past(here, "many")
        return now.get("lastUpdate", "") >= before["lastUpdate"] and now["lastUpdate"] < "2999" and _positive(now)

    await eventually("its own figures replace what was written", mended)
    await stage.processes.children["controller"].stop()
    await stage.processes.restart("controller")
    await _end(here, "many-0")
    await here.running("few-0", 1)


def _positive(stored: dict[str, Any]) -> bool:
    return not str(stored["consumedResources"].get(GPU, "-")).startswith("-")


async def test_a_queue_without_the_mode_admits_the_oldest(site: Callable[[str], Site]) -> None:
    here = site("usage-off")
    await here.open({"b": {"r": 1}}, quota=4)
    await local_queue(here, "few")
    await here.submit(here.job("many-0", 1, gpus=4))
    await here.running("many-0", 1)
    await here.submit(here.job("many-1", 1, gpus=4))
    await here.waits("many-1", "WaitingForQuota", "")
    await here.a_second_after("many-1")
    await here.submit(here.job("few-0", 1, gpus=4, queue="few"))
    await here.waits("few-0", "WaitingForQuota", "")
    assert await past(here, "few") == {}
    await _end(here, "many-0")
    await here.running("many-1", 1)
