"""A rack that is reserved for a later time: for maintenance, and for a planned run of one team."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from api.kube.resources import ADVANCE_RESERVATIONS, CLUSTER_QUEUES
from api.meta import Condition, find_condition
from api.names import ACTIVE, MAX_EXEC_TIME_LABEL, REQUIRE_TOPOLOGY, RESERVATION, ReservationReason
from tests.scenarios.site import GPU, GROUP, RACK, Site, eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")
SHARES_STAGE = True
MakeSite = Callable[[str], Site]
IN_RACK = {REQUIRE_TOPOLOGY: RACK}
WAITS = "advance reservation"


def at(minutes: float) -> str:
    """So many minutes from now."""
    return (datetime.now(UTC) + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")


async def reserve(here: Site, name: str, start: float, end: float, *namespaces: str, **more: Any) -> None:
    """Reserves the rack r1 of the site; `start` and `end` are minutes from now."""
    labels = {GROUP: here.name, RACK: "r1"}
    spec = {"nodeLabels": labels, "start": at(start), "end": at(end), "namespaces": list(namespaces), **more}
    await here.make(ADVANCE_RESERVATIONS, {"metadata": {"name": name}, "spec": spec})


async def said(here: Site, name: str, reason: str, text: str) -> None:
    """Waits until the reservation's condition says so."""

    async def check() -> bool:
        found = await here.kube.get(ADVANCE_RESERVATIONS, name)
        conditions = [Condition.from_wire(one) for one in (found.get("status") or {}).get("conditions") or ()]
        active = find_condition(conditions, ACTIVE)
        return active is not None and active.reason == reason and text in active.message

    await eventually(f"{name} says {reason}: {text}", check)


def limited(job: dict[str, Any], seconds: int) -> dict[str, Any]:
    job["metadata"]["labels"][MAX_EXEC_TIME_LABEL] = str(seconds)
    return job


async def test_a_rack_is_free_for_maintenance_at_its_time_and_for_all_afterwards(site: MakeSite) -> None:
    """Two racks of 2 hosts with 4 GPUs each. What runs there already runs on, and the reservation names it."""
    here = site("maintenance")
    await here.open({"b1": {"r1": 2}}, quota=100)
    await here.submit(here.job("before", 1, IN_RACK))
    await here.running("before", 1)
    await reserve(here, "maintenance", 60, 120)
    await said(
        here,
        "maintenance",
        ReservationReason.HELD,
        "1 workload(s) there may run beyond the start: maintenance/job-before",
    )
    await here.submit(here.job("long", 2, IN_RACK))
    await here.waits("long", "TopologyPlacementFailed", WAITS)
    await here.submit(limited(here.job("short", 2, IN_RACK), 600))
    await here.running("short", 2)
    await here.add_nodes({"b1": {"r2": 2}})
    assert await here.racks(await here.running("long", 2)) == Counter({"b1/r2": 2})

    await here.submit(here.job("next", 7, IN_RACK))
    await here.waits("next", "TopologyPlacementFailed", "")
    await here.finish("short")
    await here.finish("before")
    await here.waits("next", "TopologyPlacementFailed", WAITS)
    await here.change(ADVANCE_RESERVATIONS, "maintenance", {"spec": {"start": at(-2), "end": at(0.05)}}, cluster=True)
    await said(here, "maintenance", ReservationReason.OVER, "over since")
    assert await here.racks(await here.running("next", 7)) == Counter({"b1/r1": 7})


async def test_only_jobs_that_name_a_reservation_for_their_namespace_run_in_its_rack(site: MakeSite) -> None:
    here, other = site("planned"), "somebody-else"
    await here.open({"b1": {"r1": 2}}, quota=100)
    await reserve(here, "planned-run", -1, 60, here.name)
    await here.submit(here.job("stranger", 2, IN_RACK))
    await here.waits("stranger", "TopologyPlacementFailed", WAITS)
    await here.submit(limited(here.job("brief", 1, IN_RACK), 600))
    await here.waits("brief", "TopologyPlacementFailed", WAITS)
    await here.submit(here.job("user", 4, {**IN_RACK, RESERVATION: "planned-run"}))
    await here.running("user", 4)

    await here.change(ADVANCE_RESERVATIONS, "planned-run", {"spec": {"namespaces": [other]}}, cluster=True)
    await said(here, "planned-run", ReservationReason.HELD, "planned/job-user")
    await here.submit(here.job("late", 1, {**IN_RACK, RESERVATION: "planned-run"}))
    await here.waits("late", "TopologyPlacementFailed", WAITS)
    await here.remove(ADVANCE_RESERVATIONS, "planned-run")
    for job, pods in (("late", 1), ("stranger", 2), ("brief", 1)):
        await here.running(job, pods)


async def test_a_reservation_charges_the_quota_that_it_names_and_gives_it_back(site: MakeSite) -> None:
    """Quota for 8 GPUs, a rack with 8 and one with 8 more: the reserved rack takes all of it, and its user none on top."""
    here = site("charged")
    await here.open({"b1": {"r1": 2, "r2": 2}}, quota=8)

    async def counted(gpus: str) -> None:
        async def check() -> bool:
            status = (await here.kube.get(CLUSTER_QUEUES, here.name)).get("status") or {}
            totals = {
                resource["name"]: resource.get("total")
                for flavor in status.get("flavorsReservation") or ()
                for resource in flavor["resources"]
            }
            return totals.get(GPU) == gpus

        await eventually(f"{here.name} counts {gpus} GPUs", check)

    await reserve(here, "charged-run", 0.05, 60, here.name, clusterQueue=here.name)
    await said(here, "charged-run", ReservationReason.HELD, "is charged for 2 of them")
    await counted("8")
    await here.submit(here.job("stranger", 2, IN_RACK))
    await here.waits("stranger", "WaitingForQuota", f"insufficient unused quota for {GPU}")
    await here.submit(here.job("user", 8, {**IN_RACK, RESERVATION: "charged-run"}))
    assert await here.racks(await here.running("user", 8)) == Counter({"b1/r1": 8})
    await counted("8")

    await reserve(here, "charged-too", -1, 60, clusterQueue=here.name)
    await said(here, "charged-too", ReservationReason.HELD, "2 are charged to charged-run")
    await here.remove(ADVANCE_RESERVATIONS, "charged-too")
    await reserve(here, "charged-none", -1, 60, clusterQueue="charged-absent")
    await said(here, "charged-none", ReservationReason.HELD, "ClusterQueue charged-absent not found")
    await here.remove(ADVANCE_RESERVATIONS, "charged-none")
    quota = [{"name": "cpu", "nominalQuota": 100}, {"name": GPU, "nominalQuota": 6}]
    groups = [{"coveredResources": ["cpu", GPU], "flavors": [{"name": here.name, "resources": quota}]}]
    await here.finish("user")
    await here.change(CLUSTER_QUEUES, here.name, {"spec": {"resourceGroups": groups}}, cluster=True)
    await here.change(ADVANCE_RESERVATIONS, "charged-run", {"spec": {"end": at(50)}}, cluster=True)
    await said(here, "charged-run", ReservationReason.HELD, f"until 2 {GPU} of flavor {here.name} are free")
    await here.change(ADVANCE_RESERVATIONS, "charged-run", {"spec": {"end": at(0.02)}}, cluster=True)
    await said(here, "charged-run", ReservationReason.OVER, "over since")
    await here.running("stranger", 2)
    await counted("2")
