"""The page of a dashboard beside running processes, on the embedded API server and on the real control plane.

The dashboard is the one of `stowage dashboard`: it serves this machine's user what the kubeconfig may read.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio

from admission.dashboard.app import serving_locally
from admission.settings import AdmissionSettings
from api.kube.client import PatchKind
from api.kube.resources import ADVANCE_RESERVATIONS, CLUSTER_QUEUES, NODES, PODS, RESOURCE_QUOTAS
from api.names import MINIMUM_RUN_TIME, MOVABLE, REQUIRE_TOPOLOGY
from hack.controlplane.fixtures import cluster, control_plane_tools
from hack.controlplane.options import ClusterOptions
from tests.page.conftest import Watcher
from tests.scenarios.site import BLOCK, GROUP, RACK, Site
from tests.scenarios.stage import Stage, embedded, real
from tests.scenarios.tenants import prioritized
from tests.scenarios.test_moves import fragment

__all__ = ["cluster", "control_plane_tools"]

pytestmark = pytest.mark.asyncio(loop_scope="session")
CONTROL_PLANE = ClusterOptions()
SMALL = {"b1": {"r1": 2, "r2": 2}, "b2": {"r1": 2}}
MOVES = {"STOWAGE_CONTROLLER__MOVES": "true", "STOWAGE_CONTROLLER__MOVES_AFTER": "0"}
"""Jobs that allow it are moved at once; no other job of these tests allows it."""
SECONDS = 20_000
"""Milliseconds that a change may take from a user's write to the screen: the controller decides in between."""


@pytest_asyncio.fixture(scope="module", loop_scope="session", params=["embedded", "real"])
async def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """The processes, on one stage after the other."""
    folder = tmp_path_factory.mktemp("live")
    opening = (
        embedded(folder, MOVES)
        if request.param == "embedded"
        else real(request.getfixturevalue("cluster"), folder, MOVES)
    )
    async with opening as found:
        yield found


@dataclass
class Shown:
    """A site, and the page that shows its cluster."""

    site: Site
    page: Any
    url: str

    async def go(self, route: str) -> None:
        """Opens a route of the page."""
        await self.page.goto(f"{self.url}#/{route}")


@pytest_asyncio.fixture(loop_scope="session")
async def shown(request: pytest.FixtureRequest, stage: Stage, watching: Watcher) -> AsyncIterator[Shown]:
    """A site of six hosts that no other test has, and a page."""
    site = Site(stage.kube, request.node.originalname.removeprefix("test_").replace("_", "-")[:20].strip("-"))
    await site.open(SMALL)
    async with serving_locally(stage.kube, AdmissionSettings()) as (url, _):
        watched = await watching()
        yield Shown(site, watched.page, url)
        assert watched.errors == []


async def test_a_job_is_followed_from_its_wait_to_its_places(shown: Shown) -> None:
    site, page = shown.site, shown.page
    await shown.go(f"topology/{site.name}")
    await page.get_by_text("6 hosts").first.wait_for(timeout=SECONDS)
    await site.submit(site.job("wide", 9, {REQUIRE_TOPOLOGY: RACK}))
    await site.waits("wide", "TopologyPlacementFailed", "allows to fit only 8 out of 9 pod(s)")
    await page.get_by_role("link", name="Waiting").click()
    row = page.locator(".waiting tbody tr", has_text=f"{site.name}/")
    await row.get_by_text("TopologyPlacementFailed").wait_for(timeout=SECONDS)
    await row.get_by_role("link").click()
    await page.get_by_text("What would admit it").wait_for(timeout=SECONDS)
    assert "allows to fit only 8 out of 9 pod(s)" in await page.inner_text("main")
    assert "8 pods instead of 9" in await page.inner_text("main")
    await site.add_nodes({"b1": {"r3": 3}})
    await page.get_by_text("9 pods on 3 hosts").wait_for(timeout=SECONDS)
    await shown.go(f"topology/{site.name}")
    await page.locator(".side").get_by_text(f"{site.name}/job-wide").wait_for(timeout=SECONDS)
    await page.locator(".side").get_by_role("button", name="b1").click()
    await page.locator(".side").get_by_role("button", name="r3").click()
    assert "12" in await page.inner_text(".side")


async def test_a_node_that_fails_turns_red_and_says_why(shown: Shown) -> None:
    site, page = shown.site, shown.page
    await shown.go(f"topology/{site.name}?at=b2")
    await page.locator(".side").get_by_text("2 hosts").first.wait_for(timeout=SECONDS)
    await site.change(NODES, f"{site.name}-b2-r1-0", {"spec": {"unschedulable": True}}, cluster=True)
    await page.locator(".side").get_by_text("1 cordoned").wait_for(timeout=SECONDS)


async def test_what_if_is_answered_and_creates_nothing(shown: Shown) -> None:
    site, page = shown.site, shown.page
    await shown.go("what-if")
    await page.get_by_label("LocalQueue").select_option(f"{site.name}/lq", timeout=SECONDS)
    await page.get_by_label("Pods", exact=True).fill("8")
    await page.get_by_label("memory of each pod").fill("")
    await page.get_by_label("Devices of each pod").fill("1")
    await page.get_by_label("Topology").select_option("required")
    await page.get_by_label("Level").select_option(label="rack")
    await page.get_by_role("button", name="Ask").click()
    await page.get_by_text("8 pods on 2 hosts").wait_for(timeout=SECONDS)
    await page.get_by_label("Pods", exact=True).fill("9")
    await page.get_by_role("button", name="Ask").click()
    await page.get_by_text("8 pods instead of 9").first.wait_for(timeout=SECONDS)
    assert await site.workload_of("what-if") is None


async def test_the_queue_shows_what_its_job_uses(shown: Shown) -> None:
    site, page = shown.site, shown.page
    await site.submit(site.job("eight", 8))
    await site.admitted("eight")
    await shown.go("queues")
    article = page.get_by_role("article", name=f"ClusterQueue {site.name}")
    await article.get_by_text("1 runs").wait_for(timeout=SECONDS)
    cells = await article.locator("tr", has_text="nvidia.com/gpu").locator("td").all_inner_texts()
    assert cells[2:7] == ["8", "1,000", "–", "–", "–"]


def at(minutes: float) -> str:
    """So many minutes from now."""
    return (datetime.now(UTC) + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")


async def test_a_reserved_rack_is_marked_until_its_end(shown: Shown) -> None:
    site, page = shown.site, shown.page
    await shown.go(f"topology/{site.name}?at=b2")
    await page.locator(".side").get_by_text("2 hosts").first.wait_for(timeout=SECONDS)
    name, labels = f"{site.name}-firmware", {GROUP: site.name, BLOCK: "b2"}
    spec = {"nodeLabels": labels, "start": at(60), "end": at(120)}
    await site.make(ADVANCE_RESERVATIONS, {"metadata": {"name": name}, "spec": spec})
    await page.locator(".side").get_by_text(f"{name}: 2 hosts").wait_for(timeout=SECONDS)
    await page.get_by_role("button", name="reserved for a time").wait_for(timeout=SECONDS)
    soon = {"spec": {"start": at(-60), "end": at(0.1)}}
    await site.kube.patch(ADVANCE_RESERVATIONS, name, soon, kind=PatchKind.MERGE)
    await page.locator(".side").get_by_text(name).wait_for(state="detached", timeout=SECONDS)


STAYS = "example.com/stays"


async def keep_pods(site: Site, kept: bool) -> None:
    """Keeps the pods of the site after their deletion, as those of a slow shutdown stay, or lets them go."""
    for pod in (await site.kube.list(PODS, site.name)).items:
        others = [one for one in pod["metadata"].get("finalizers") or () if one != STAYS]
        body = {"metadata": {"finalizers": [*others, STAYS] if kept else others}}
        await site.kube.patch(PODS, pod["metadata"]["name"], body, site.name, kind=PatchKind.MERGE)


async def test_hosts_that_a_victim_leaves_are_held_for_its_preemptor(shown: Shown) -> None:
    site, page = shown.site, shown.page
    await site.change(
        CLUSTER_QUEUES, site.name, {"spec": {"preemption": {"withinClusterQueue": "LowerPriority"}}}, cluster=True
    )
    await site.submit(await prioritized(site, site.job("low", 24), 1))
    await site.running("low", 24)
    await keep_pods(site, kept=True)
    await site.submit(await prioritized(site, site.job("high", 8, {REQUIRE_TOPOLOGY: RACK}), 9))
    await shown.go(f"topology/{site.name}")
    side = page.locator(".side")
    await side.get_by_text("Held until others have left").wait_for(timeout=SECONDS)
    await side.get_by_text(f"{site.name}/job-high").wait_for(timeout=SECONDS)
    await page.get_by_role("button", name="held for others").wait_for(timeout=SECONDS)
    await page.get_by_role("link", name="Waiting").click()
    row = page.locator(".waiting tbody tr", has_text=f"{site.name}/job-high")
    await row.get_by_text("6 hosts held for it, until others have left").wait_for(timeout=SECONDS)
    await keep_pods(site, kept=False)
    await site.running("high", 8)
    await row.wait_for(state="detached", timeout=SECONDS)
    await shown.go(f"topology/{site.name}")
    await side.get_by_text(f"{site.name}/job-high").wait_for(timeout=SECONDS)
    assert await side.get_by_text("Held until others have left").count() == 0


async def test_the_host_that_a_mover_leaves_is_held_for_the_gang(shown: Shown) -> None:
    """Its pods end slowly: until then they stand where they were, and the gang waits beside an empty rack."""
    site, page = shown.site, shown.page
    await fragment(site, {MOVABLE: "true", MINIMUM_RUN_TIME: "0s"})
    await keep_pods(site, kept=True)
    await site.submit(site.job("gang", 8, {REQUIRE_TOPOLOGY: RACK}))
    await shown.go(f"topology/{site.name}")
    side = page.locator(".side")
    await side.get_by_text("Held until others have left").wait_for(timeout=SECONDS)
    await side.get_by_text(f"{site.name}/job-gang").wait_for(timeout=SECONDS)
    await page.get_by_role("button", name="held for others").wait_for(timeout=SECONDS)
    await page.get_by_role("link", name="Waiting").click()
    row = page.locator(".waiting tbody tr", has_text=f"{site.name}/job-gang")
    await row.get_by_text("1 host held for it, until others have left").wait_for(timeout=SECONDS)
    await keep_pods(site, kept=False)
    await site.running("gang", 8)
    await site.running("small", 3)
    await row.wait_for(state="detached", timeout=SECONDS)
    await shown.go(f"topology/{site.name}")
    await side.get_by_text(f"{site.name}/job-gang").wait_for(timeout=SECONDS)
    assert await side.get_by_text("Held until others have left").count() == 0


async def test_a_job_whose_pods_are_refused_is_among_those_that_wait(shown: Shown, stage: Stage) -> None:
    if stage.name != "real":
        pytest.skip("the embedded API server has no ResourceQuotas")
    site, page = shown.site, shown.page
    quota = {"metadata": {"name": "few", "namespace": site.name}, "spec": {"hard": {"pods": "1"}}}
    await site.make(RESOURCE_QUOTAS, quota)
    await site.submit(site.job("gang", 2, {REQUIRE_TOPOLOGY: RACK}))
    await shown.go("waiting")
    row = page.locator(".waiting tbody tr", has_text=f"{site.name}/job-gang")
    await row.get_by_text("PodsNotCreated").wait_for(timeout=SECONDS)
    await row.get_by_role("link").click()
    await page.get_by_text("exceeded quota: few").first.wait_for(timeout=SECONDS)
