"""The alerts whose metrics a real control plane makes in its own way: its watches, its scheduler, its rights, its leases.

test_alerts.py has every alert, on the embedded API server. A case here waits until each watch was heard of
again: where nothing changes, once a minute by a bookmark, and of events by the end of the watch.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest
import pytest_asyncio

from api.kube.client import PatchKind
from api.kube.resources import LEASES, Resource
from hack.controlplane.cluster import ControlPlane
from hack.controlplane.fixtures import built
from hack.controlplane.options import ClusterOptions
from hack.controlplane.prometheus import RECIPE
from tests.e2e.alert_faults import (
    CASES,
    CONTROLLER,
    UNGATER,
    Case,
    Faults,
    Points,
    Watched,
)
from tests.e2e.defects import Defects
from tests.e2e.test_alerts import RULES
from tests.e2e.timeline import END, HEALTHY, Promtool, firing, input_series
from tests.scenarios.launchers import MovedClock
from tests.scenarios.site import Site
from tests.scenarios.stage import real

pytestmark = [
    pytest.mark.long,
    pytest.mark.asyncio(loop_scope="module"),
]  # a case takes the minute between two bookmarks
CONTROL_PLANE = ClusterOptions()
CLUSTER_ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False)
BETWEEN_BOOKMARKS = 150.0
"""Seconds, more than two of the API server's pauses."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def watched(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Watched]:
    promtool = Promtool(built(RECIPE).program("promtool"), tmp_path_factory.mktemp("rules"), RULES)
    async with real(cluster, folder := tmp_path_factory.mktemp("alerts")) as stage:
        site, more = Site(stage.kube, "watched"), Site(stage.kube, "more")
        unused = Defects(folder / "none"), MovedClock(folder / "clock")
        made = Watched(stage, site, more, Faults(), *unused, promtool, patience=BETWEEN_BOOKMARKS)
        await site.open({"b1": {"r1": 3}})
        await more.open({"b1": {"r1": 4}})
        await site.submit(site.job("early", 1, gpus=4))
        await site.running("early", 1)
        made.first = await made.until("capacity", CONTROLLER, "stowage_largest_gang_pods", lambda value: value > 0)
        await site.submit(site.job("later", 1, gpus=4))
        await site.running("later", 1)
        made.second = await made.heard_since(made.first)
        yield made


async def test_nothing_fires_while_all_is_well(watched: Watched) -> None:
    """Every watch is heard of, those of kinds too of which there is not one object."""
    series = input_series(watched.first, watched.second, watched.second)
    assert not watched.promtool.failures("well", series, [firing(minute) for minute in (HEALTHY, 60, END - 1)])


async def the_right_to_admit_is_taken(watched: Watched) -> Points:
    """An administrator narrows the role of the controller."""
    before, kube = await watched.scrape(), watched.stage.kube
    role = await kube.get(CLUSTER_ROLES, "stowage-controller")
    left = [rule for rule in role["rules"] if rule["resources"] != ["workloads/status"]]
    assert len(left) == len(role["rules"]) - 1
    await kube.patch(CLUSTER_ROLES, "stowage-controller", {"rules": left}, kind=PatchKind.MERGE)
    await watched.more.submit(watched.more.job("refused", 1))
    await watched.until("one failed", CONTROLLER, "stowage_admission_writes_total", bool, outcome="failed")
    found = await watched.heard_since(before)
    await kube.patch(CLUSTER_ROLES, "stowage-controller", {"rules": role["rules"]}, kind=PatchKind.MERGE)
    await watched.more.running("refused", 1)
    return before, before, found


async def another_holds_the_lease(watched: Watched) -> Points:
    """For an hour: a replica that is not ours, or that was lost with its node."""
    before = await watched.scrape()
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": "another", "leaseDurationSeconds": 3600, "acquireTime": now, "renewTime": now}
    await watched.stage.kube.patch(LEASES, "stowage-ungater", {"spec": spec}, "stowage-system", kind=PatchKind.MERGE)
    lost = "stowage-ungater"
    await watched.until("the lease is lost", UNGATER, "stowage_leader", lambda value: not value, lease=lost)
    return before, before, await watched.heard_since(before)


FAULTS = {
    "kube-scheduler refuses a pod": CASES["pods-refused"],
    "the API server refuses admissions": replace(CASES["admissions-refused"], inject=the_right_to_admit_is_taken),
    # last, because it is not given back; the gauge says it at once, of a process that is gone Prometheus knows it later
    "another holds the lease": Case("StowageNoLeader", another_holds_the_lease, 2),
}


@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_fires_its_alert_alone(watched: Watched, name: str) -> None:
    case = FAULTS[name]
    points = await case.inject(watched)
    first, latest = HEALTHY + case.after, HEALTHY + (case.latest or case.after)
    questions = [*([firing(first - 1)] if case.after else []), firing(latest, case.alert), firing(END - 1, case.alert)]
    assert not watched.promtool.failures(case.alert, input_series(*points), questions)
