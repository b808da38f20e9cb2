"""What a user does and sees on the page, in a headless Chromium."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from tests.page.cluster import FLAVOR, MadeCluster, workload
from tests.page.conftest import Opened, Opener

pytestmark = pytest.mark.asyncio(loop_scope="session")
NARROW = {"width": 400, "height": 800}
HOSTILE = "<img src=x onerror=window.hacked=1><script>window.hacked=1</script>"
WAITS = "[class~=waiting] tbody tr"


def a_waiting(cluster: MadeCluster) -> str:
    """The key of a workload that waits."""
    return next(key for key, row in cluster.rows.items() if row["state"] == "Pending")


def a_large(cluster: MadeCluster) -> str:
    """The key of the running workload with the most pods."""
    running = [row for row in cluster.rows.values() if row["state"] == "Admitted"]
    row = max(running, key=lambda row: row["pods"])
    return f"{row['namespace']}/{row['name']}"


def in_minutes(minutes: float | None) -> str | None:
    """A time so many minutes from now."""
    return None if minutes is None else (datetime.now(UTC) + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")


async def picture(page: Any) -> None:
    """Waits until the picture is painted."""
    await page.wait_for_function(
        "() => performance.getEntriesByName('stowage:paint').some((one) => one.detail.hosts > 0)"
    )


async def asked(opened: Opened, end: str, times: int) -> None:
    """Waits until the page has asked for an address with this end so many times."""
    await opened.page.wait_for_function(
        "([end, times]) => performance.getEntriesByType('resource').filter((one) => one.name.endsWith(end)).length >= times",
        arg=[end, times],
    )


async def at(opened: Opened) -> str | None:
    """The chosen place, by the address."""
    wanted = await opened.page.evaluate("() => new URLSearchParams(location.hash.split('?')[1] ?? '').get('at')")
    return None if wanted is None else str(wanted)


async def fits(opened: Opened) -> bool:
    """Whether nothing of the page is wider than its window."""
    return bool(await opened.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("window", [None, NARROW], ids=["wide", "narrow"])
async def test_each_view_is_shown_without_an_error(scheme: str, window: dict[str, int] | None, opened: Opener) -> None:
    cluster = MadeCluster(400)
    found = await opened(cluster, scheme=scheme, **({} if window is None else {"window": window}))
    large, waits = a_large(cluster), a_waiting(cluster)
    for route, said in (
        ("topology", "400 hosts"),
        ("topology?color=queue", "training-large"),
        ("topology?color=job", "more"),
        ("topology?color=fullness", "empty"),
        ("queues", "Cohort all"),
        ("waiting", "57 workloads wait"),
        ("running", "workloads run"),
        (f"workload/{large}", "pods on"),
        (f"workload/{waits}", "What would admit it"),
        ("what-if", "What if this job were submitted now?"),
        ("nowhere", "There is no such page"),
    ):
        await found.go(route)
        await found.page.get_by_text(said).first.wait_for()
        assert await fits(found), route
    assert found.errors == []
    assert {url.split("/")[2] for url in found.requests} == {found.url.split("/")[2]}


async def test_a_new_user_finds_in_three_clicks_why_a_job_waits(opened: Opener) -> None:
    found = await opened(MadeCluster(400))
    await found.go("")
    await found.page.get_by_role("link", name="Waiting").click()
    await found.page.locator(WAITS).first.get_by_role("link").click()
    await found.page.locator(".lead", has_text="rack b01/r023 holds 12 of 16 pods").wait_for()
    assert "required cloud.example.com/topology-block" in await found.text()


async def test_a_change_appears_and_leaves_zoom_and_focus(opened: Opener) -> None:
    cluster = MadeCluster(400)
    found = await opened(cluster)
    await found.go(f"topology/{FLAVOR}?at=b00/r003")
    row = found.page.locator(".side tr", has_text="node-00050")
    await row.wait_for()
    await found.page.locator("canvas").focus()
    focused = await found.page.locator("[role=treeitem]").last.inner_text()
    cluster.state[50], cluster.why["50"] = 2, "NotReady"
    found.stand_in.send("topology", cluster.change([50]))
    await row.get_by_text("failed").wait_for(timeout=2000)
    assert await at(found) == "b00/r003"
    assert await found.page.evaluate("() => document.activeElement.tagName") == "CANVAS"
    assert (await found.page.locator("[role=treeitem]").last.inner_text()).split(",")[0] == focused.split(",")[0]


@pytest.mark.parametrize(
    ("ahead", "times"), [pytest.param(0, 1, id="current"), pytest.param(3, 2, id="older than the events")]
)
async def test_the_tree_is_read_before_the_events_and_again_only_if_it_lacks_a_change(
    ahead: int, times: int, opened: Opener
) -> None:
    found = await opened(MadeCluster(64))
    found.stand_in.ahead = ahead
    found.stand_in.begin.clear()
    await found.go("topology")
    await picture(found.page)
    found.stand_in.begin.set()
    await asked(found, "v1/topology", 2)
    await asked(found, f"/topology/{FLAVOR}", times)
    # A change of what was read last is shown, whichever reading it was.
    found.stand_in.cluster.version += ahead
    found.stand_in.cluster.state[3], found.stand_in.cluster.why["3"] = 2, "NotReady"
    found.stand_in.send("topology", found.stand_in.cluster.change([3]))
    await found.go(f"topology/{FLAVOR}?at=b00/r000/node-00003")
    await found.page.locator(".side").get_by_text("NotReady").first.wait_for(timeout=5000)
    assert sum(url.endswith(f"/topology/{FLAVOR}") for url in found.requests) == times


async def test_a_reserved_rack_says_by_what_and_until_when(opened: Opener) -> None:
    found = await opened(MadeCluster(400))
    await found.go("topology?at=b00/r013")
    side = found.page.locator(".side")
    await side.get_by_text("rack-13-firmware").wait_for()
    assert "16 hosts, 1 Mar 2030" in await found.text(".side")
    await found.page.get_by_role("button", name="reserved for a time").wait_for()
    cluster = found.stand_in.cluster
    cluster.reserved.clear()
    found.stand_in.send("topology", cluster.change(list(range(208, 224))))
    await side.get_by_text("rack-13-firmware").wait_for(state="detached", timeout=5000)


async def test_hosts_that_others_leave_say_for_whom_they_are_held(opened: Opener) -> None:
    cluster = MadeCluster(400)
    key = a_waiting(cluster)
    hosts = [at for at, runs in enumerate(cluster.runs) if runs and at // 16 == 2]
    found = await opened(cluster)
    await found.go(f"topology/{FLAVOR}?at=b00/r002")
    await picture(found.page)
    side = found.page.locator(".side")
    await side.get_by_role("heading", name="What runs here").wait_for()
    assert await side.get_by_text("Held until others have left").count() == 0
    for host in hosts:
        cluster.leave(host, key)
    found.stand_in.send("topology", cluster.change(hosts))
    found.stand_in.send("workloads", {"changed": [cluster.rows[key]], "removed": []})
    await side.get_by_text("Held until others have left").wait_for(timeout=5000)
    assert f"{key}: {len(hosts)} hosts" in await found.text(".side")
    canvas = found.page.locator("canvas")
    box = await canvas.bounding_box()
    assert box is not None
    await canvas.hover(position={"x": box["width"] / 2, "y": box["height"] / 2})
    await found.page.locator(".tip", has_text=f"held for {key}").wait_for(timeout=5000)
    await side.get_by_role("link", name=key).click()
    await found.page.wait_for_url("**/#/workload/**")
    await found.go("waiting")
    held = f"{len(hosts)} hosts held for it, until others have left"
    await found.page.locator(WAITS, has_text=key).get_by_text(held).wait_for()


async def test_a_host_that_is_held_for_a_hidden_workload_says_no_name(opened: Opener) -> None:
    cluster = MadeCluster(400)
    host = next(at for at, runs in enumerate(cluster.runs) if runs and at // 16 == 2)
    found = await opened(cluster)
    await found.go(f"topology/{FLAVOR}?at=b00/r002/{cluster.names[host]}")
    await picture(found.page)
    key = a_waiting(cluster)
    cluster.leave(host, key)
    change = cluster.change([host])
    change["hosts"][0]["heldFor"] = [["", ""]]
    found.stand_in.send("topology", change)
    await found.page.locator(".side").get_by_text("a workload of another namespace: 1 host").wait_for(timeout=5000)
    assert key not in await found.text(".side")


REFUSED = "3 of 16 pods do not exist: pods is forbidden: exceeded quota"


async def test_a_job_that_is_admitted_and_lacks_pods_is_found_among_those_that_wait(opened: Opener) -> None:
    cluster = MadeCluster(400)
    key = a_large(cluster)
    cluster.rows[key]["notes"] = [{"type": "PodsNotCreated", "reason": "CreationRefused", "message": REFUSED}]
    found = await opened(cluster)
    await found.go("waiting?reason=PodsNotCreated")
    row = found.page.locator(WAITS, has_text=REFUSED)
    await row.get_by_text("PodsNotCreated").wait_for()
    await row.get_by_role("link").click()
    await found.page.get_by_text(f"CreationRefused: {REFUSED}").wait_for()
    cluster.rows[key]["notes"] = []
    found.stand_in.send("workloads", {"changed": [cluster.rows[key]], "removed": []})
    await found.page.get_by_text(REFUSED).wait_for(state="detached", timeout=5000)


@pytest.mark.parametrize(
    ("earliest", "latest", "message"),
    [
        pytest.param(5.5, 42.5, r"in 5 min – 42 min", id="an interval"),
        pytest.param(None, 42.5, r"within 42 min", id="a latest start alone"),
        pytest.param(-5, 42.5, r"within 42 min", id="the earliest has passed"),
        pytest.param(5.5, None, r"in 5 min or later", id="no latest start is known"),
        pytest.param(-5, -1, r"due now", id="both have passed"),
    ],
)
async def test_an_expected_start_is_shown_as_an_interval(
    earliest: float | None, latest: float | None, message: str, opened: Opener
) -> None:
    cluster = MadeCluster(64)
    key = a_waiting(cluster)
    cluster.rows[key] |= {"earliestStart": in_minutes(earliest), "expectedStart": in_minutes(latest)}
    found = await opened(cluster)
    await found.go("waiting")
    row = found.page.locator(WAITS, has_text=key)
    await row.get_by_text(message).wait_for()
    await row.get_by_role("link").click()
    await found.page.locator("dd", has_text=message).wait_for()


async def test_a_workload_that_is_admitted_leaves_the_list_and_its_page_changes(opened: Opener) -> None:
    cluster = MadeCluster(400)
    found = await opened(cluster)
    key = a_waiting(cluster)
    await found.go("waiting")
    await found.page.get_by_text("57 workloads wait").wait_for()
    cluster.rows[key] |= {"state": "Admitted", "reason": "Admitted", "message": "The workload is admitted"}
    found.stand_in.send("workloads", {"changed": [cluster.rows[key]], "removed": []})
    await found.page.get_by_text("56 workloads wait").wait_for(timeout=2000)
    await found.go(f"workload/{key}")
    await found.page.get_by_text("The workload is admitted").first.wait_for()
    cluster.rows[key] |= {"message": "Evicted for another"}
    found.stand_in.send("workloads", {"changed": [cluster.rows[key]], "removed": []})
    await found.page.get_by_text("Evicted for another").first.wait_for(timeout=2000)


async def test_the_picture_of_15000_hosts_is_walked_by_pointer(opened: Opener) -> None:
    found = await opened(MadeCluster(15_000))
    await found.go("topology")
    await picture(found.page)
    canvas = found.page.locator("canvas")
    await canvas.hover(position={"x": 60, "y": 60})
    assert re.search(r"node-\d{5}|r\d{3}|b\d\d", await found.text(".tip"))
    await canvas.click(position={"x": 60, "y": 60})
    await found.page.wait_for_function("() => location.hash.includes('at=b00')")
    assert "320 hosts" in await found.text(".side")
    await found.page.locator(".side").get_by_role("button", name="r004").click()
    assert await at(found) == "b00/r004"
    await found.page.go_back()
    await found.page.wait_for_function("() => location.hash.endsWith('at=b00')")
    assert "320 hosts" in await found.text(".side")
    assert found.errors == []


async def test_the_tree_is_walked_by_keys(opened: Opener) -> None:
    found = await opened(MadeCluster(400))
    await found.go("topology")
    await picture(found.page)
    await found.page.locator("canvas").focus()
    item = found.page.locator("[role=treeitem]").last
    assert (await item.inner_text()).startswith("block b00")
    await found.page.keyboard.press("ArrowRight")
    assert (await item.inner_text()).startswith("block b01")
    assert [await item.get_attribute(f"aria-{name}") for name in ("level", "posinset", "setsize")] == ["1", "2", "2"]
    await found.page.keyboard.press("Enter")
    await found.page.keyboard.press("Enter")
    assert await at(found) == "b01/r020"
    await found.page.keyboard.press("End")
    assert (await item.inner_text()).startswith("rack r024")
    await found.page.keyboard.press("Enter")
    await found.page.keyboard.press("Enter")
    assert re.fullmatch("b01/r024/node-00384", await at(found) or "")
    assert (
        "pods" in await item.inner_text() or "pod of" in await item.inner_text() or "nothing" in await item.inner_text()
    )
    for _ in range(3):
        await found.page.keyboard.press("Escape")
    assert await at(found) is None


async def test_the_list_of_what_runs_has_owner_start_and_gpu_hours(opened: Opener) -> None:
    cluster = MadeCluster(400)
    key = a_large(cluster)
    namespace, name = key.split("/")
    cluster.rows[key] |= {"job": "JobSet llm", "gpus": 64, "ranBefore": 3600, "started": in_minutes(-120)}
    found = await opened(cluster)
    await found.go(f"running?text={name}&namespace={namespace}")
    row = found.page.locator(WAITS)
    await row.first.wait_for()
    cells = [text.strip() for text in await row.first.locator("td").all_inner_texts()]
    assert cells[:2] == [key, "JobSet llm"]
    assert cells[5] == "64"
    assert cells[7:] == ["2 h 0 min", "192"]
    await found.page.get_by_role("link", name="Running").wait_for()
    await found.go("running?sort=hours")
    first = await found.page.locator(f"{WAITS} td.num").last.inner_text()
    assert first
    assert found.errors == []


async def in_sight(opened: Opened) -> bool:
    """Whether the place that the keyboard is at lies in the picture's window, by the ring that is painted round it."""
    return bool(
        await opened.page.evaluate(
            """() => {
              const canvas = document.querySelector('canvas');
              const { width, height } = canvas;
              const data = canvas.getContext('2d').getImageData(0, 0, width, height).data;
              const probe = document.createElement('div');
              probe.style.color = getComputedStyle(document.documentElement).getPropertyValue('--accent');
              document.body.append(probe);
              const [r, g, b] = getComputedStyle(probe).color.match(/\\d+/g).map(Number);
              probe.remove();
              const is = (at) => data[at] === r && data[at + 1] === g && data[at + 2] === b;
              for (let at = 0; at < data.length; at += 4) if (is(at)) return true;
              return false;
            }"""
        )
    )


@pytest.mark.parametrize("keys", [["+"] * 6, ["End", "+", "+", "+", "Home"], ["+"] * 3 + ["End"] + ["+"] * 3])
async def test_the_keyboards_cursor_stays_in_sight(keys: list[str], opened: Opener) -> None:
    found = await opened(MadeCluster(400))
    await found.go("topology")
    await picture(found.page)
    await found.page.locator("canvas").focus()
    for key in keys:
        await found.page.keyboard.press(key)
        await found.page.evaluate(
            "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )
        assert await in_sight(found), key


async def test_every_control_is_reached_by_tab(opened: Opener) -> None:
    found = await opened(MadeCluster(64))
    await found.go("topology")
    await picture(found.page)
    names: list[str] = []
    for _ in range(24):
        await found.page.keyboard.press("Tab")
        names.append(
            await found.page.evaluate(
                "() => document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent.slice(0, 40)"
            )
        )
    assert names[:7] == ["To the content", "Stowage", "Topology", "Queues", "Waiting57", "Running", "What if"]
    for wanted in (
        "Search workloads, queues, hosts",
        "Switch to dark",
        "Queue",
        f"Picture of {FLAVOR}: block, rack, host",
        "Zoom in",
    ):
        assert wanted in names
    await found.page.keyboard.press("/")
    assert await found.page.evaluate("() => document.activeElement.getAttribute('role')") == "combobox"


@pytest.mark.parametrize(
    ("typed", "arrives"),
    [
        pytest.param("node-00123", f"#/topology/{FLAVOR}?at=b00%2Fr007%2Fnode-00123", id="host"),
        pytest.param("r011", f"#/topology/{FLAVOR}?at=b00%2Fr011", id="rack"),
        pytest.param("robotics", "#/queues?queue=robotics", id="queue"),
        pytest.param("10007", "#/workload/", id="workload"),
    ],
)
async def test_search_goes_to_what_it_finds(typed: str, arrives: str, opened: Opener) -> None:
    found = await opened(MadeCluster(400))
    await found.go("topology")
    await picture(found.page)
    await found.page.keyboard.press("/")
    await found.page.keyboard.type(typed)
    await found.page.keyboard.press("Enter")
    await found.page.wait_for_function("(start) => location.hash.startsWith(start)", arg=arrives)


async def test_names_are_text_whatever_they_hold(opened: Opener) -> None:
    cluster = MadeCluster(64)
    long = "x" * 3000
    key = a_waiting(cluster)
    cluster.rows[key] |= {"message": HOSTILE, "reason": HOSTILE, "job": HOSTILE, "clusterQueue": HOSTILE}
    other = next(row for row in cluster.rows.values() if row["state"] == "Pending" and row["job"] != HOSTILE)
    other |= {"message": long, "job": long, "clusterQueue": long}
    other["notes"] = [{"type": HOSTILE, "reason": HOSTILE, "message": long}]
    cluster.reservations = [{"name": HOSTILE, "start": HOSTILE, "end": long}]
    cluster.reserved = {0: [0], 1: [0]}
    cluster.names[0] = HOSTILE
    cluster.names[1] = long
    cluster.domains[0][0] = HOSTILE
    cluster.why["0"], cluster.state[0] = HOSTILE, 2
    cluster.runs[2] = [(f"team-a/{HOSTILE}", HOSTILE, 1, [1000, 1 << 30, 8])]
    cluster.rows[f"team-a/{HOSTILE}"] = dict(other)
    found = await opened(cluster)
    for route in ("topology?color=queue", "waiting", f"workload/{key}", "queues"):
        await found.go(route)
        await found.page.locator("main h1").first.wait_for()
        assert await fits(found), route
    await found.go("waiting")
    await found.page.locator(WAITS).get_by_text(HOSTILE).first.wait_for()
    await found.go("topology?color=job")
    await picture(found.page)
    for row in range(3):
        await found.page.locator("canvas").hover(position={"x": 40 + 200 * row, "y": 60})
    await found.page.keyboard.press("/")
    await found.page.keyboard.type("<img")
    await found.page.get_by_role("option").first.wait_for()
    assert await found.page.evaluate("() => window.hacked") is None
    assert await found.page.locator("main img, main script").count() == 0
    assert found.errors == []


async def test_the_list_is_filtered_sorted_and_linked(opened: Opener) -> None:
    cluster = MadeCluster(400)
    found = await opened(cluster)
    await found.go("waiting?namespace=vision&sort=pods")
    await found.page.locator(WAITS).first.wait_for()
    wanted = [row for row in cluster.rows.values() if row["state"] == "Pending" and row["namespace"] == "vision"]
    assert await found.page.locator(WAITS).count() == len(wanted)
    sizes = [int(text) for text in await found.page.locator(f"{WAITS} td:nth-child(5)").all_inner_texts()]
    assert sizes == sorted((row["pods"] for row in wanted), reverse=True)
    await found.page.get_by_label("Text").fill("no such workload")
    await found.page.get_by_text("No waiting workload matches the filter").wait_for()
    await found.page.get_by_role("button", name="Clear").click()
    await found.page.get_by_text("57 workloads wait").wait_for()
    assert await found.page.locator(WAITS).count() == 57


async def test_what_if_sends_the_form_or_the_text(opened: Opener) -> None:
    found = await opened(MadeCluster(64))
    await found.go("what-if")
    await found.page.get_by_label("LocalQueue").select_option("team-a/main")
    await found.page.get_by_label("Pods", exact=True).fill("16")
    await found.page.get_by_label("Devices of each pod").fill("8")
    await found.page.get_by_label("Topology").select_option("required")
    await found.page.get_by_label("Level").select_option(label="rack")
    await found.page.get_by_role("button", name="Ask").click()
    await found.page.get_by_text("main had 12 pods instead of 16").wait_for()
    job = found.stand_in.asked[0]["job"]
    assert (job["namespace"], job["queue"], job["pods"], job["levelMode"]) == ("team-a", "main", 16, "required")
    assert job["requests"] == {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "8"}
    assert job["level"].endswith("topology-rack")
    await found.page.get_by_role("button", name="YAML").click()
    await found.page.get_by_role("textbox", name="Manifests").fill("nothing")
    await found.page.get_by_role("button", name="Ask").click()
    await found.page.get_by_text("it has no kind").wait_for()
    assert found.stand_in.asked[1] == {"yaml": "nothing"}


async def test_the_switch_of_the_theme_lasts(opened: Opener) -> None:
    found = await opened(MadeCluster(64))
    await found.go("topology")
    await found.page.get_by_role("button", name="Switch to dark").click()
    await found.page.reload()
    await found.page.get_by_role("button", name="Switch to light").wait_for()
    assert await found.page.evaluate("() => document.documentElement.dataset.theme") == "dark"


async def test_a_lost_connection_is_said_and_what_was_missed_is_read(opened: Opener) -> None:
    cluster = MadeCluster(400)
    found = await opened(cluster)
    await found.go("waiting")
    await found.page.get_by_text("57 workloads wait").wait_for()
    found.stand_in.refuse = True
    found.stand_in.cut()
    await found.page.get_by_role("alert").get_by_text("Not live").wait_for()
    assert "57 workloads wait" in await found.text()
    del cluster.rows[a_waiting(cluster)]
    found.stand_in.refuse = False
    await found.page.get_by_text("56 workloads wait").wait_for()
    await found.page.get_by_text("live", exact=True).wait_for()


async def test_ten_thousand_jobs_with_the_longest_names_are_listed_and_found(opened: Opener) -> None:
    cluster = MadeCluster(64, waiting=0)
    for number in range(10_000):
        name = f"{'x' * 120}-{number:05d}-{'y' * 126}"
        row = workload(number, Random(number), 4, "Pending") | {
            "name": name,
            "job": f"Job {name}",
            "message": "m" * 300,
        }
        cluster.rows[f"{row['namespace']}/{name}"] = row | {"reason": "QuotaExceeded"}
    found = await opened(cluster)
    await found.go("waiting")
    await found.page.get_by_text("10,000 workloads wait").wait_for(timeout=20_000)
    assert await found.page.locator(WAITS).count() == 100
    assert await fits(found)
    await found.page.get_by_label("Text").fill("-09123-")
    await found.page.locator(WAITS, has_text="-09123-").wait_for()
    await found.page.keyboard.press("Escape")
    await found.page.evaluate("() => document.activeElement.blur()")
    await found.page.keyboard.press("/")
    await found.page.keyboard.type("-07777-")
    await found.page.get_by_role("option", name="-07777-").wait_for()
    await found.page.keyboard.press("Enter")
    await found.page.get_by_role("heading", level=1).get_by_text("-07777-").wait_for()
    assert await fits(found)
    assert found.errors == []


@pytest.mark.parametrize(
    ("empty", "message"),
    [
        pytest.param("topology", "No flavor has a topology", id="no topology"),
        pytest.param("queues", "No ClusterQueue", id="no queue"),
        pytest.param("waiting", "Nothing waits", id="nothing waits"),
    ],
)
async def test_an_empty_cluster_says_so(empty: str, message: str, opened: Opener) -> None:
    cluster = MadeCluster(0, waiting=0)
    found = await opened(cluster, bare=True)
    await found.go(empty)
    await found.page.get_by_text(message).first.wait_for()
    assert found.errors == []
