"""The server as a client meets it: TLS, tokens, discovery, history that runs out, bookmarks, and the seams for faults."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from api.embedded.request import RequestTarget
from api.embedded.server import EmbeddedServer, EmbeddedSettings
from api.kube.resources import CONFIG_MAPS, CRDS, PODS
from tests.crds import shipped

MAPS = "/api/v1/namespaces/default/configmaps"


@asynccontextmanager
async def _client(server: EmbeddedServer, token: str = "") -> AsyncIterator[aiohttp.ClientSession]:
    context = ssl.create_default_context(cadata=server.identity.ca.decode()) if server.identity else False
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    connector = aiohttp.TCPConnector(ssl=context)
    async with aiohttp.ClientSession(server.url, connector=connector, headers=headers) as session:
        yield session


async def _json(session: aiohttp.ClientSession, path: str, method: str = "GET", **extra: Any) -> tuple[int, Any]:
    async with session.request(method, path, **extra) as response:
        return response.status, json.loads(await response.read())


def _fill(server: EmbeddedServer, count: int) -> None:
    for number in range(count):
        server.store.create(CONFIG_MAPS, {"metadata": {"name": f"m{number}"}}, "default")


@pytest.mark.parametrize("tls", [True, False], ids=["tls", "plain"])
async def test_it_serves_and_says_what(tls: bool) -> None:
    async with EmbeddedServer(EmbeddedSettings(tls=tls)) as server, _client(server) as session:
        assert server.url.startswith("https" if tls else "http:")
        async with session.get("/readyz") as response:
            assert await response.text() == "ok"
        assert (await _json(session, "/version"))[1]["minor"] == "36"
        groups = (await _json(session, "/apis"))[1]["groups"]
        assert "batch" in [group["name"] for group in groups]
        resources = (await _json(session, "/apis/batch/v1"))[1]["resources"]
        assert [entry["name"] for entry in resources] == ["jobs", "jobs/status"]
        async with session.get("/nowhere") as response:
            assert (response.status, await response.text()) == (404, "404 page not found\n")
        server.store.create(CRDS, shipped("scheduling.x-k8s.io_podgroups"))
        entry, *_ = (await _json(session, "/apis/scheduling.x-k8s.io/v1alpha1"))[1]["resources"]
        assert (entry["name"], entry["categories"]) == ("podgroups", ["gangs", "podgroups"])
        assert (await _json(session, "/api/v1/nothing"))[0] == 404
        assert (await _json(session, MAPS + "/x", "POST"))[0] == 405


async def test_tokens_name_users(tmp_path: Path) -> None:
    async with EmbeddedServer(EmbeddedSettings(tokens={"secret": "someone"})) as server:
        for token, status in (("", 401), ("wrong", 401), ("secret", 200), (server.admin_token, 200)):
            async with _client(server, token) as session:
                assert (await _json(session, MAPS))[0] == status
        config = json.loads(server.kubeconfig(tmp_path / "config", "secret").read_text())
        assert config["users"][0]["user"] == {"token": "secret"}
        assert config["clusters"][0]["cluster"]["server"] == server.url


async def test_pages_whose_moment_is_forgotten_answer_410_with_a_way_on() -> None:
    async with EmbeddedServer() as server, _client(server) as session:
        _fill(server, 4)
        _, first = await _json(session, f"{MAPS}?limit=2")
        server.store.create(CONFIG_MAPS, {"metadata": {"name": "m9"}}, "default")
        server.store.compact()
        status, gone = await _json(session, f"{MAPS}?limit=2&continue={first['metadata']['continue']}")
        assert (status, gone["reason"]) == (410, "Expired")
        status, rest = await _json(session, f"{MAPS}?continue={gone['metadata']['continue']}")
        assert [item["metadata"]["name"] for item in rest["items"]] == ["m2", "m3", "m9"]


async def test_a_watch_from_before_the_history_ends_with_410() -> None:
    async with EmbeddedServer(EmbeddedSettings(history=2)) as server, _client(server) as session:
        _fill(server, 4)
        async with session.get(f"{MAPS}?watch=1&resourceVersion=1") as response:
            (event,) = [json.loads(line) async for line in response.content]
        assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")


async def test_bookmarks_carry_the_version_on() -> None:
    async with EmbeddedServer(EmbeddedSettings(bookmark_seconds=0.01)) as server, _client(server) as session:
        _fill(server, 1)
        version = server.store.resource_version
        server.store.create(
            PODS, {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}, "default"
        )
        async with session.get(f"{MAPS}?watch=1&allowWatchBookmarks=true&resourceVersion={version}") as response:
            event = json.loads(await asyncio.wait_for(response.content.readline(), 60))
        assert event["type"] == "BOOKMARK"
        assert event["object"]["metadata"]["resourceVersion"] == str(server.store.resource_version)


async def test_a_write_that_loses_a_race_starts_over_unless_it_named_a_version() -> None:
    """Sixteen patches of one object at once all arrive."""
    async with EmbeddedServer() as server, _client(server) as session:
        _fill(server, 1)
        headers = {"Content-Type": "application/merge-patch+json"}
        patches = [
            _json(session, f"{MAPS}/m0", "PATCH", json={"data": {f"k{number}": "1"}}, headers=headers)
            for number in range(16)
        ]
        assert {status for status, _ in await asyncio.gather(*patches)} == {200}
        assert len(server.store.get(CONFIG_MAPS, "m0", "default")["data"]) == 16


async def test_stopping_ends_watches_and_refuses_no_later_start() -> None:
    server = EmbeddedServer()
    await server.start()
    async with _client(server) as session:
        response = await session.get(f"{MAPS}?watch=1")
        await server.stop()
        assert await asyncio.wait_for(response.content.read(), 60) == b""
    async with server, _client(server) as session:
        assert (await _json(session, MAPS))[0] == 200


async def test_a_request_can_be_taken_over() -> None:
    async def take(request: web.Request) -> web.Response | None:
        return web.json_response({"message": "busy"}, status=429) if request.method == "POST" else None

    async with EmbeddedServer(EmbeddedSettings(intercept=take)) as server, _client(server) as session:
        assert (await _json(session, MAPS, "POST", json={}))[0] == 429
        assert (await _json(session, MAPS))[0] == 200


async def test_what_a_watch_sends_can_be_cut() -> None:
    async def cut(_: web.Request, target: RequestTarget, data: bytes) -> bytes | None:
        assert target.kind.plural == "configmaps"
        return None if b"m1" in data else data

    async with (
        EmbeddedServer(EmbeddedSettings(on_send=cut)) as server,
        _client(server) as session,
        session.get(f"{MAPS}?watch=1") as response,
    ):
        server.store.create(CONFIG_MAPS, {"metadata": {"name": "m0"}}, "default")
        assert b'"m0"' in await asyncio.wait_for(response.content.readline(), 60)
        server.store.create(CONFIG_MAPS, {"metadata": {"name": "m1"}}, "default")
        assert await asyncio.wait_for(response.content.readline(), 60) == b""
