"""The page as users walk through it: what the picture, the queues, a job's page and links show, and a walk by keys alone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.page.cluster import FLAVOR, GPU, MadeCluster
from tests.page.conftest import Opened, Opener
from tests.page.test_page import WAITS, a_large, a_waiting, at, picture

pytestmark = pytest.mark.asyncio(loop_scope="session")
MOST_TABS = 80


async def focused(page: Any) -> str:
    """The name of what has the focus."""
    return str(
        await page.evaluate(
            "() => document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent.slice(0, 80)"
        )
    )


async def tab_to(page: Any, start: str) -> str:
    """Presses Tab until something whose name begins so has the focus. Returns its name."""
    for _ in range(MOST_TABS):
        await page.keyboard.press("Tab")
        if (name := await focused(page)).startswith(start):
            return name
    raise AssertionError(f"no Tab leads to {start}")


async def legend(opened: Opened) -> dict[str, int]:
    """The entries of the legend with their numbers of hosts."""
    buttons = await opened.page.locator(".legend button").all()
    entries = [(await one.locator(".label").inner_text(), await one.locator(".faint").inner_text()) for one in buttons]
    return {label: int(count.replace(",", "")) for label, count in entries}


async def test_the_legend_counts_each_state_of_the_hosts(opened: Opener) -> None:
    cluster = MadeCluster(3000)
    cluster.state[100], cluster.why["100"] = 1, "cordoned"
    found = await opened(cluster)
    await found.go("topology")
    await picture(found.page)
    told = await legend(found)
    assert list(told) == [
        "free",
        "used by workloads",
        "held for others",
        "foreign pods",
        "reserved for a time",
        "cordoned",
        "failed",
    ]
    assert (told["failed"], told["cordoned"]) == (cluster.state.count(2), cluster.state.count(1))
    assert told["held for others"] == sum(any(amounts) for amounts in cluster.held)
    assert told["reserved for a time"] == 16
    await found.page.get_by_role("button", name="failed").click()
    await found.page.wait_for_function("() => location.hash.includes('only=failed')")


async def test_each_coloring_names_what_its_colors_are(opened: Opener) -> None:
    cluster = MadeCluster(400)
    found = await opened(cluster)
    await found.go("topology")
    await picture(found.page)
    await found.page.get_by_role("button", name="Queue", exact=True).click()
    await found.page.get_by_role("button", name="training-large").wait_for()
    assert {row["clusterQueue"] for row in cluster.rows.values() if row["state"] == "Admitted"} <= (
        await legend(found)
    ).keys()
    await found.page.get_by_role("button", name="Job", exact=True).click()
    await found.page.get_by_role("button", name=a_large(cluster)).wait_for()
    await found.page.get_by_role("button", name="Fullness", exact=True).click()
    await found.page.locator(".legend .ramp").wait_for()


@pytest.mark.parametrize("resource", ["cpu", GPU])
async def test_a_host_says_what_it_has_and_what_runs_there(resource: str, opened: Opener) -> None:
    cluster = MadeCluster(400)
    host = next(number for number, runs in enumerate(cluster.runs) if len(runs) == 1)
    found = await opened(cluster)
    await found.go(f"topology?resource={resource}")
    await picture(found.page)
    await found.page.keyboard.press("/")
    await found.page.keyboard.type(cluster.names[host])
    await found.page.keyboard.press("Enter")
    side = found.page.locator(".side")
    await side.get_by_role("link", name=cluster.runs[host][0][0]).wait_for()
    column = 0 if resource == "cpu" else 2
    used, of = cluster.used[host][column], cluster.total[host][column]
    free = of - used - cluster.foreign[host][column] - cluster.held[host][column]
    unit = 1000 if resource == "cpu" else 1
    cells = await side.locator("tr", has_text=resource).first.locator("td").all_inner_texts()
    assert cells[1:4] == [f"{amount / unit:g}" for amount in (used, free, of)]
    await side.get_by_role("link", name=cluster.runs[host][0][0]).click()
    await found.page.get_by_text("pods on").or_(found.page.get_by_text("1 pod on")).first.wait_for()


async def test_a_queue_shows_quota_use_loans_and_what_waits(opened: Opener) -> None:
    cluster = MadeCluster(400)
    found = await opened(cluster)
    await found.go("queues")
    for queue in cluster.queues()["clusterQueues"]:
        article = found.page.get_by_role("article", name=f"ClusterQueue {queue['name']}", exact=True)
        quota = queue["quotas"][0]
        row = article.locator("tr", has_text=GPU)
        wanted = [quota[name] for name in ("used", "nominal", "borrowed", "lent", "pending")]
        await row.wait_for()
        cells = await row.locator("td").all_inner_texts()
        assert cells[2:7] == [f"{amount:,}" if amount else "–" for amount in wanted], queue["name"]
        bars = {
            name: float(await row.locator(f"rect.{name}").first.get_attribute("width") or 0)
            for name in ("used", "borrowed", "lent")
        }
        assert {name for name, width in bars.items() if width > 0} == {
            name
            for name, amount in zip(("used", "borrowed", "lent"), (quota["used"], *wanted[2:4]), strict=True)
            if amount
        }
        assert await row.locator("rect.pending").count() == bool(quota["pending"])
    await found.page.get_by_role("link", name="training-large").click()
    await found.page.get_by_role("heading", name="Queue training-large").wait_for()
    assert await found.page.get_by_role("article").count() == 1


async def test_a_jobs_page_has_its_pods_its_places_and_its_history(opened: Opener) -> None:
    cluster = MadeCluster(400)
    key = a_large(cluster)
    found = await opened(cluster)
    await found.go(f"workload/{key}")
    detail = cluster.detail(key)
    await found.page.get_by_text(f"{len(detail['places'])} pods on {len(detail['places'])} hosts").wait_for()
    await picture(found.page)
    history = found.page.locator("section", has=found.page.get_by_role("heading", name="History"))
    assert await history.locator("li").count() == len(detail["conditions"])
    pods = found.page.locator("section", has=found.page.get_by_role("heading", name="Pods", exact=True))
    assert await pods.locator("tbody tr").count() == min(30, len(detail["podList"]))
    await found.page.get_by_role("link", name=detail["places"][0]["host"]).first.click()
    assert (await at(found) or "").endswith(detail["places"][0]["host"])


async def test_a_link_shows_a_colleague_the_same(opened: Opener) -> None:
    cluster = MadeCluster(400)
    found = await opened(cluster)
    await found.go("topology")
    await picture(found.page)
    await found.page.get_by_label("Resource").select_option("cpu")
    await found.page.get_by_role("button", name="Queue", exact=True).click()
    await found.page.locator(".side").get_by_role("button", name="b01").click()
    await found.page.get_by_role("button", name="robotics").click()
    await found.page.wait_for_function("() => location.hash.includes('only=robotics')")
    link = await found.page.evaluate("() => location.hash")
    other = await found.page.context.new_page()
    await other.goto(f"{found.url}/{link}")
    await picture(other)
    assert await other.get_by_label("Resource").input_value() == "cpu"
    assert await other.get_by_role("button", name="Queue", exact=True).get_attribute("aria-pressed") == "true"
    assert await other.get_by_role("button", name="robotics").get_attribute("aria-pressed") == "true"
    assert await other.locator(".side h1").inner_text() == "b01"


async def test_every_view_is_walked_without_a_mouse(opened: Opener) -> None:
    cluster = MadeCluster(400)
    found = await opened(cluster)
    page = found.page
    await found.go("")
    await picture(page)
    await tab_to(page, "Queues")
    await page.keyboard.press("Enter")
    await page.get_by_role("heading", name="Queues").wait_for()
    # The keys go on in the new view, behind its header.
    assert (await tab_to(page, "evaluation")) == "evaluation"
    await page.keyboard.press("Enter")
    await page.get_by_role("heading", name="Queue evaluation").wait_for()
    await page.keyboard.press("Shift+Tab")
    await page.evaluate("() => document.activeElement.blur()")
    await tab_to(page, "Waiting")
    await page.keyboard.press("Enter")
    await page.get_by_text("57 workloads wait").wait_for()
    await tab_to(page, "pods")
    await page.keyboard.press("Enter")
    await page.wait_for_function("() => location.hash.includes('sort=pods')")
    first = await page.locator(WAITS).first.get_by_role("link").inner_text()
    await tab_to(page, first)
    await page.keyboard.press("Enter")
    await page.get_by_text("What would admit it").first.wait_for()
    await page.evaluate("() => document.activeElement.blur()")
    await tab_to(page, "What if")
    await page.keyboard.press("Enter")
    await page.get_by_text("What if this job were submitted now?").wait_for()
    await tab_to(page, "YAML")
    await page.keyboard.press("Enter")
    await page.keyboard.press("Tab")
    await page.keyboard.type("kind: Job")
    await tab_to(page, "Ask")
    await page.keyboard.press("Enter")
    await page.get_by_text("main had 12 pods instead of 16").first.wait_for()
    assert found.stand_in.asked == [{"yaml": "kind: Job"}]
    assert found.errors == []


async def test_a_job_that_waits_is_linked_to_the_rack_that_comes_nearest(opened: Opener) -> None:
    cluster = MadeCluster(400)
    found = await opened(cluster)
    await found.go(f"workload/{a_waiting(cluster)}")
    await found.page.get_by_role("link", name="b01/r023").click()
    await found.page.wait_for_function(f"() => location.hash.startsWith('#/topology/{FLAVOR}')")
    assert await at(found) == "b01/r023"
    assert "rack" in await found.text(".side")
