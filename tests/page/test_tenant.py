"""What a tenant finds on the page of the real server, with a token that may see one namespace.

tests/admission/dashboard asks each route; here a user walks the page, and nothing that it shows names what is hidden.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio

from api.kube.resources import ADVANCE_RESERVATIONS
from tests.admission.dashboard.small_cluster import HIDDEN, RACK, Served, served
from tests.page.conftest import Watched, Watcher

pytestmark = pytest.mark.asyncio(loop_scope="session")
VIEWS = (
    "topology?color=queue",
    "topology?color=job",
    "topology?at=b0%2Fr0%2Fn1",
    "topology?at=b0%2Fr0",
    "queues",
    "queues?queue=cq",
    "waiting",
    "waiting?namespace=hidden-ns",
    "workload/team/later",
    "workload/team/train",
    "what-if",
)


@dataclass
class Tenant:
    """The page with a tenant's token, and the server behind it."""

    watched: Watched
    served: Served

    async def go(self, route: str) -> None:
        await self.watched.page.goto(f"{self.served.base}/#/{route}")

    async def shown(self) -> str:
        """All that is in the document, also what is not seen, without the page's own address."""
        return str(await self.watched.page.evaluate("() => document.documentElement.outerHTML"))


@pytest_asyncio.fixture(loop_scope="session")
async def tenant(watching: Watcher) -> AsyncIterator[Tenant]:
    async with served() as found:
        spec = {"nodeLabels": {RACK: "r0"}, "start": "2031-01-01T00:00:00Z", "end": "2031-01-02T00:00:00Z"}
        found.cluster.add(ADVANCE_RESERVATIONS, {"metadata": {"name": "hidden-plan"}, "spec": spec})
        await found.dashboard.renew()
        watched = await watching()
        await watched.page.goto(f"{found.base}/")
        await watched.page.get_by_label("Token of the cluster").fill("tenant")
        await watched.page.keyboard.press("Enter")
        await watched.page.get_by_text("live", exact=True).wait_for()
        yield Tenant(watched, found)


async def test_no_view_names_what_is_hidden(tenant: Tenant) -> None:
    page = tenant.watched.page
    for route in VIEWS:
        await tenant.go(route)
        await page.locator("main h1, main h2").first.wait_for()
        await page.get_by_text("Loading").first.wait_for(state="detached")
        seen = await tenant.shown()
        # The filter repeats the namespace that the tenant's own address names.
        assert f"{HIDDEN}-" not in seen.replace("hidden-ns", "" if "hidden-ns" in route else "hidden-ns"), route
    await tenant.go("topology?at=b0%2Fr0%2Fn1")
    side = page.locator(".side")
    await side.get_by_text("another namespace").wait_for()
    await side.get_by_text("by a reservation that you may not see").wait_for()


@pytest.mark.parametrize("link", ["workload/hidden-ns/hidden-train", "workload/hidden-ns/none", "workload/none/none"])
async def test_a_link_to_another_tenants_job_tells_nothing(link: str, tenant: Tenant) -> None:
    await tenant.go(link)
    await tenant.watched.page.get_by_text("You may not see workload").wait_for()
    text = await tenant.watched.text()
    assert "may not list workloads.kueue.x-k8s.io" in text
    assert "cq" not in text
    assert "cpu" not in text


@pytest.mark.parametrize("link", ["workload/%2e%2e/queues", "workload/team/%2e%2e", "workload/./x", "workload/%2e/%2e"])
async def test_a_link_with_dots_is_no_page(link: str, tenant: Tenant) -> None:
    """Browsers resolve them: the page would take the answer of another route for a workload."""
    await tenant.go(link)
    await tenant.watched.page.get_by_text("There is no such page").wait_for()


async def test_search_finds_what_the_tenant_may_see(tenant: Tenant) -> None:
    page = tenant.watched.page
    await tenant.go("topology")
    await page.wait_for_function("() => performance.getEntriesByName('stowage:paint').length > 0")
    for typed, found in (("hidden", "Nothing has this in its name."), ("later", "team/later"), ("n1", "n1")):
        await page.keyboard.press("/")
        await page.keyboard.type(typed)
        await page.get_by_role("option", name=found).first.wait_for()
        await page.keyboard.press("Escape")


async def test_changes_of_others_change_amounts_and_name_nothing(tenant: Tenant) -> None:
    page = tenant.watched.page
    await tenant.go("topology?at=b0%2Fr1%2Fn3")
    await page.locator(".side").get_by_text("No workload.").wait_for()
    tenant.served.cluster.run("hidden-ns", "hidden-lq", "hidden-late", "n3", 3)
    await tenant.served.dashboard.renew()
    await page.locator(".side").get_by_text("another namespace").wait_for()
    assert "hidden-late" not in await tenant.shown()


async def test_what_if_in_another_namespace_is_refused(tenant: Tenant) -> None:
    page = tenant.watched.page
    await tenant.go("what-if?by=yaml")
    text = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: x, namespace: hidden-ns}\nspec: {}\n"
    await page.get_by_role("textbox", name="Manifests").fill(text)
    await page.get_by_role("button", name="Ask").click()
    await page.get_by_text("tenant may not list workloads.kueue.x-k8s.io in hidden-ns").wait_for()


async def test_who_signs_out_leaves_nothing_on_the_page(tenant: Tenant) -> None:
    page = tenant.watched.page
    await tenant.go("workload/team/later")
    await page.get_by_text("What would admit it").wait_for()
    await page.get_by_role("button", name="Sign out").click()
    await page.get_by_label("Token of the cluster").wait_for()
    assert "TopologyPlacementFailed" not in await tenant.shown()
    await page.get_by_label("Token of the cluster").fill("stranger")
    await page.keyboard.press("Enter")
    await page.get_by_text("You may not see workload").wait_for()
    assert "TopologyPlacementFailed" not in await tenant.shown()
