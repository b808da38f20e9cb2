"""Backfill: who does not delay the head of a strict queue runs before it, who would waits, and both are told."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from api.kube.client import PatchKind
from api.kube.resources import CLUSTER_QUEUES, JOBS
from api.meta import find_condition, parse_time
from api.names import BACKFILL, MAX_EXEC_TIME_LABEL, QUOTA_RESERVED, REQUIRE_TOPOLOGY
from tests.scenarios.failures import SHORT_LEASE
from tests.scenarios.site import RACK, Site, eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")
ENVIRONMENT = SHORT_LEASE
SHARES_STAGE = True

MakeSite = Callable[[str], Site]


def timed(here: Site, name: str, pods: int, seconds: int | None) -> dict[str, Any]:
    job = here.job(name, pods, {REQUIRE_TOPOLOGY: RACK})
    if seconds is not None:
        job["metadata"]["labels"][MAX_EXEC_TIME_LABEL] = str(seconds)
    return job


async def says(here: Site, name: str, text: str) -> str | None:
    """The message of its wait once that has the text in it."""
    workload = await here.workload_of(name)
    found = find_condition(workload.status.conditions, QUOTA_RESERVED) if workload else None
    return found.message if found is not None and found.status == "False" and text in found.message else None


async def a_later_second(here: Site, name: str) -> bool:
    """Times are kept in seconds; of two Workloads of one second the UID would say who comes first."""
    workload = await here.workload_of(name)
    created = parse_time(workload.metadata.creation_timestamp) if workload else None
    return created is not None and time.time() >= created + 1


async def test_short_jobs_run_before_a_gang_that_waits_and_long_ones_do_not(site: MakeSite) -> None:
    """One rack of two hosts, 4 GPUs each."""
    here = site("backfill")
    await here.open({"b1": {"r1": 2}}, queueingStrategy="StrictFIFO")
    body = {"metadata": {"annotations": {BACKFILL: "true"}}}
    await here.kube.patch(CLUSTER_QUEUES, here.name, body, kind=PatchKind.MERGE)
    await here.submit(timed(here, "first", 4, 3600))
    await here.running("first", 4)
    await here.submit(timed(here, "gang", 8, None))
    await eventually("the gang's moment", partial(says, here, "gang", "expected to start at "))
    await eventually("the gang is surely the older one", partial(a_later_second, here, "gang"))
    await here.submit(timed(here, "long", 4, None))
    why = await eventually("the long one's reason", partial(says, here, "long", "would delay "))
    gang = await here.workload_of("gang")
    assert gang is not None
    assert f"would delay {gang.key}, which comes before it and is expected to start at " in why
    await here.submit(timed(here, "short", 4, 600))
    await here.running("short", 4)
    assert await says(here, "gang", "expected to start at "), "it waits for its moment still"
    for name in ("short", "first"):
        await here.kube.delete(JOBS, name, here.name, propagation="Background")
    await here.running("gang", 8)
