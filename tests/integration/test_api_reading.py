"""The contract of both API servers about selectors, pages and watches (test_api_contract.py)."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.integration.contract import (
    OURS,
    Server,
    labelled,
    pod,
    refused,
)

# ---- selectors and pages


SELECTORS = [
    pytest.param("labelSelector=tier=web", ["a"], id="equal"),
    pytest.param("labelSelector=tier!=web", ["b", "c"], id="unequal"),
    pytest.param("labelSelector=tier in (web,db)", ["a", "b"], id="in"),
    pytest.param("labelSelector=tier notin (web)", ["b", "c"], id="notin"),
    pytest.param("labelSelector=tier", ["a", "b"], id="exists"),
    pytest.param("labelSelector=!tier", ["c"], id="absent"),
    pytest.param("labelSelector=tier,x=1", ["a"], id="both"),
    pytest.param("fieldSelector=metadata.name=b", ["b"], id="name"),
    pytest.param("fieldSelector=metadata.name!=b", ["a", "c"], id="not-name"),
    pytest.param("fieldSelector=spec.nodeName=", ["a", "b", "c"], id="no-node"),
    pytest.param("fieldSelector=status.phase=Running", [], id="phase"),
]


@pytest.mark.parametrize(("query", "names"), SELECTORS)
async def test_selectors(server: Server, query: str, names: list[str]) -> None:
    await labelled(server)
    answer = await server.get(f"pods?{query.replace(' ', '%20')}")
    assert answer.body["kind"] == "PodList"
    assert [item["metadata"]["name"] for item in answer.body["items"]] == names
    assert all("kind" not in item for item in answer.body["items"])


async def test_a_field_without_a_selector(server: Server) -> None:
    refused(await server.get("pods?fieldSelector=spec.color=red"), 400, "BadRequest", "field label not supported")


async def test_pages_show_one_moment(server: Server) -> None:
    for number in range(5):
        await server.post("pods", pod(f"p{number}"))
    first = await server.get("pods?limit=2")
    assert first.body["metadata"]["remainingItemCount"] == 3
    await server.delete("pods/p3")
    await server.post("pods", pod("p2a"))
    seen, token = [item["metadata"]["name"] for item in first.body["items"]], first.body["metadata"]["continue"]
    while token:
        page = await server.get(f"pods?limit=2&continue={token}")
        assert page.version == first.version
        seen += [item["metadata"]["name"] for item in page.body["items"]]
        token = page.body["metadata"].get("continue")
    assert seen == ["p0", "p1", "p2", "p3", "p4"]


# ---- watches


async def test_a_watch_from_a_version_shows_what_follows(server: Server) -> None:
    made = await server.post("pods", pod("x", OURS))
    version = (await server.get("pods")).version
    await server.patch("pods/x", {"metadata": {"labels": {"a": "1"}}})
    async with server.watch(f"pods?watch=1&resourceVersion={version}") as event:
        changed = await event()
        assert (changed["type"], changed["object"]["metadata"]["labels"]) == ("MODIFIED", {"a": "1"})
        await server.post("pods", pod("y"))
        assert (await event())["type"] == "ADDED"
        await server.delete("pods/x")
        ending, gone = await event(), await event()
        assert (ending["type"], ending["object"]["metadata"]["deletionGracePeriodSeconds"]) == ("MODIFIED", 0)
        assert (gone["type"], gone["object"]["metadata"]["name"]) == ("DELETED", "x")
        assert int(gone["object"]["metadata"]["resourceVersion"]) > int(made.version)
        assert gone["object"]["kind"] == "Pod"


async def test_a_filtered_watch_sees_objects_come_and_go(server: Server) -> None:
    version = (await server.get("pods")).version
    await server.post("pods", pod("x", OURS))
    async with server.watch(f"pods?watch=1&labelSelector=on&resourceVersion={version}") as event:
        for change, expected in (({"on": "1"}, "ADDED"), ({"on": "2"}, "MODIFIED"), ({"on": None}, "DELETED")):
            await server.patch("pods/x", {"metadata": {"labels": change}})
            assert (await event())["type"] == expected


async def test_a_watch_list_ends_its_first_part_with_a_bookmark(server: Server) -> None:
    await server.post("pods", pod("x"))
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    async with server.watch(f"pods?{query}") as event:
        assert (await event())["type"] == "ADDED"
        mark = await event()
        assert mark["type"] == "BOOKMARK"
        assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        await server.post("pods", pod("y"))
        while (after := await event())["type"] == "BOOKMARK":  # a slow test meets those that come from time to time
            continue
        assert after["object"]["metadata"]["name"] == "y"


async def test_a_watch_from_too_long_ago_ends_with_410(server: Server) -> None:
    """Version 1 is before any history that a server keeps of pods, once one of them has been forgotten."""
    async with server.session.get(server.path("pods?watch=1&resourceVersion=1&timeoutSeconds=1")) as response:
        lines = [json.loads(line) async for line in response.content]
    for line in lines:
        assert line["type"] in ("ADDED", "MODIFIED", "DELETED", "ERROR")
        if line["type"] == "ERROR":
            assert (line["object"]["code"], line["object"]["reason"]) == (410, "Expired")


async def test_a_watch_ends_in_time(server: Server) -> None:
    async with server.session.get(server.path("pods?watch=1&timeoutSeconds=1")) as response:
        assert await asyncio.wait_for(response.read(), 60) == b""
