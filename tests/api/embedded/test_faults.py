"""Each fault strikes where it says, is counted, spares who is spared, and falls the same way for the same seed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from api.embedded.faults import FaultInjector, InjectedFault, Rates
from api.embedded.server import EmbeddedServer, EmbeddedSettings
from api.embedded.store import ObjectStorage
from api.kube.resources import Resource

MAPS = "/api/v1/namespaces/default/configmaps"
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
WAIT = 60.0


@asynccontextmanager
async def stormy(
    rates: Rates, seed: int = 0, *, token: str = "victim"
) -> AsyncIterator[tuple[FaultInjector, ObjectStorage, aiohttp.ClientSession]]:
    faults = FaultInjector(victims=lambda value: value == "victim", slowness=0.01, lag=0.01)
    settings = EmbeddedSettings(
        tls=False, tokens={"victim": "v", "spared": "s"}, bookmark_seconds=0.05, **faults.seams()
    )
    async with EmbeddedServer(settings) as server:
        headers = {"Authorization": f"Bearer {token}"}
        timeout = aiohttp.ClientTimeout(total=WAIT)
        async with aiohttp.ClientSession(server.url, headers=headers, timeout=timeout) as session:
            with faults.storm(rates, seed):
                yield faults, server.store, session


def named(name: str) -> dict[str, object]:
    return {"metadata": {"name": name}}


@pytest.mark.parametrize(
    ("fault", "method", "status"),
    [
        (InjectedFault.BUSY, "GET", 429),
        (InjectedFault.BROKEN, "GET", 500),
        (InjectedFault.UNAVAILABLE, "POST", 503),
        (InjectedFault.CONFLICT, "PATCH", 409),
    ],
)
async def test_a_refusal_stands_in_for_the_answer_and_nothing_is_done(
    fault: InjectedFault, method: str, status: int
) -> None:
    async with stormy({fault: 1.0}) as (faults, store, session):
        path = f"{MAPS}/m" if method == "PATCH" else MAPS
        async with session.request(method, path, json=named("m")) as answer:
            assert answer.status == status
            assert (await answer.json())["code"] == status
            assert ("Retry-After" in answer.headers) == (
                fault is InjectedFault.BUSY
            ) or fault is InjectedFault.UNAVAILABLE
        assert faults.struck == {fault: 1}
        assert store.find("", "configmaps", "m", "default") is None


async def test_clients_that_are_no_victims_are_spared_and_after_the_storm_all() -> None:
    async with stormy({InjectedFault.BROKEN: 1.0}, token="spared") as (_, __, session), session.get(MAPS) as answer:
        assert answer.status == 200
    async with stormy({InjectedFault.BROKEN: 1.0}) as (faults, _, session):
        faults.end()
        async with session.get(MAPS) as answer:
            assert answer.status == 200


async def test_an_answer_that_is_cut_leaves_the_write_done() -> None:
    async with stormy({InjectedFault.CUT: 1.0}) as (_, store, session):
        for n in range(8):  # some connections are cut, some answers become a 504
            try:
                async with session.post(MAPS, json=named(f"m{n}")) as answer:
                    assert answer.status == 504
            except aiohttp.ClientError:
                pass
            assert store.find("", "configmaps", f"m{n}", "default") is not None


async def test_a_watch_from_a_version_is_gone_and_so_is_a_continued_list() -> None:
    async with stormy({InjectedFault.GONE: 1.0}) as (faults, _, session):
        for query in ("watch=1&resourceVersion=1", "limit=1&continue=x"):
            async with session.get(f"{MAPS}?{query}") as answer:
                assert answer.status == 410
        async with session.get(MAPS) as answer:
            assert answer.status == 200
        assert faults.struck[InjectedFault.GONE] == 2


@pytest.mark.parametrize(
    ("fault", "expected"), [(InjectedFault.DUPLICATE, ["m0", "m0"]), (InjectedFault.REORDER, ["m0"])]
)
async def test_what_a_watch_sends_comes_twice_or_later(fault: InjectedFault, expected: list[str]) -> None:
    async with stormy({fault: 1.0}) as (_, store, session), session.get(f"{MAPS}?watch=1") as response:
        store.create(CONFIG_MAPS, named("m0"), "default")
        lines = [await asyncio.wait_for(response.content.readline(), WAIT) for _ in expected]
        assert [b'"m0"' in line for line in lines] == [True for _ in expected]


async def test_a_silent_watch_says_nothing_more_while_a_new_one_after_the_storm_does() -> None:
    async with stormy({InjectedFault.SILENT: 1.0}) as (faults, store, session):
        async with session.get(f"{MAPS}?watch=1&allowWatchBookmarks=true") as response:
            store.create(CONFIG_MAPS, named("m0"), "default")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(response.content.readline(), 0.3)
            faults.end()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(response.content.readline(), 0.3)
        async with session.get(f"{MAPS}?watch=1") as response:
            assert b'"m0"' in await asyncio.wait_for(response.content.readline(), WAIT)


async def test_a_dropped_watch_ends() -> None:
    async with stormy({InjectedFault.DROPPED: 1.0}) as (_, store, session):
        try:
            async with session.get(f"{MAPS}?watch=1") as response:
                store.create(CONFIG_MAPS, named("m0"), "default")
                assert await asyncio.wait_for(response.content.readline(), WAIT) == b""
        except aiohttp.ClientError:
            pass


@pytest.mark.parametrize("seed", [1, 2])
async def test_the_same_seed_strikes_the_same_requests(seed: int) -> None:
    async def fates() -> list[int]:
        async with stormy({InjectedFault.BROKEN: 0.5}, seed) as (_, __, session):
            statuses = []
            for _ in range(20):
                async with session.get(MAPS) as answer:
                    statuses.append(answer.status)
            return statuses

    first = await fates()
    assert first == await fates()
    assert set(first) == {200, 500}
