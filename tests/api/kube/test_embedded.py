"""Client, informer, events and election together, against the embedded API server over TLS."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from api.embedded.request import RequestTarget
from api.embedded.server import EmbeddedServer, EmbeddedSettings
from api.errors import AlreadyExists, Conflict, NotFound, Unauthorized, Unreachable
from api.kube.client import Kube, PatchKind
from api.kube.events import NORMAL, EventRecorder, ref_to
from api.kube.informers.informer import Informer
from api.kube.resources import EVENTS, LEASES, NAMESPACES, NODES, PODS
from api.kube.settings import ClientSettings, InformerSettings, LeaderSettings
from api.pod.pods import Node
from api.process.leader import LeaderElection
from tests.api.kube.clock import until

QUICK = InformerSettings(backoff_base=0.001, backoff_max=0.02)


class Faults:
    """Requests and watch lines to spoil, by the server's seams."""

    def __init__(self) -> None:
        self.refuse: list[int] = []
        self.drop_lines = 0
        self.repeat_lines = False

    async def intercept(self, request: web.Request) -> web.StreamResponse | None:
        if not self.refuse:
            return None
        code = self.refuse.pop(0)
        return web.json_response(
            {"kind": "Status", "code": code, "reason": "Spoiled", "message": "on request"}, status=code
        )

    async def on_send(self, _: web.Request, __: RequestTarget, data: bytes) -> bytes | None:
        if self.drop_lines:
            self.drop_lines -= 1
            return None
        return data * 2 if self.repeat_lines else data


@asynccontextmanager
async def connected(
    folder: Path, faults: Faults | None = None, client: dict[str, Any] | None = None, **settings: Any
) -> AsyncIterator[tuple[EmbeddedServer, Kube]]:
    if faults:
        settings |= {"intercept": faults.intercept, "on_send": faults.on_send}
    async with EmbeddedServer(EmbeddedSettings(seed=1, **settings)) as server:
        kubeconfig = server.kubeconfig(folder / "kubeconfig")
        quick = {"backoff_base": 0.001, "backoff_max": 0.02} | (client or {})
        async with await Kube.connect(ClientSettings(kubeconfig=kubeconfig, **quick)) as kube:
            yield server, kube


@asynccontextmanager
async def informed(kube: Kube, settings: InformerSettings = QUICK) -> AsyncIterator[Informer[Node]]:
    informer = Informer(kube, NODES, Node, settings=settings)
    task = asyncio.create_task(informer.run())
    try:
        yield informer
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def node(name: str, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


async def labels_at_server(kube: Kube) -> dict[str, dict[str, str]]:
    page = await kube.list(NODES, decode=Node)
    return {item.metadata.name: item.metadata.labels for item in page.items}


def labels_here(informer: Informer[Node]) -> dict[str, dict[str, str]]:
    return {key: item.metadata.labels for key, item in informer.objects.items()}


async def test_objects_live_and_die(tmp_path: Path) -> None:
    async with connected(tmp_path) as (_, kube):
        made = await kube.create(NODES, node("n1", rack="r1"))
        with pytest.raises(AlreadyExists):
            await kube.create(NODES, node("n1"))
        patched = await kube.patch(NODES, "n1", {"metadata": {"labels": {"rack": "r2"}}}, kind=PatchKind.MERGE)
        assert patched["metadata"]["labels"] == {"rack": "r2"}
        with pytest.raises(Conflict):
            await kube.replace(NODES, made)
        assert (await kube.get(NODES, "n1", decode=Node)).metadata.labels == {"rack": "r2"}
        with pytest.raises(Conflict):
            await kube.delete(NODES, "n1", uid="another")
        await kube.delete(NODES, "n1", uid=made["metadata"]["uid"])
        with pytest.raises(NotFound):
            await kube.get(NODES, "n1")


async def test_an_unknown_token_is_unauthorized(tmp_path: Path) -> None:
    async with EmbeddedServer(EmbeddedSettings(tokens={"known": "someone"})) as server:
        kubeconfig = server.kubeconfig(tmp_path / "kubeconfig", token="stranger")
        async with await Kube.connect(ClientSettings(kubeconfig=kubeconfig)) as kube:
            with pytest.raises(Unauthorized):
                await kube.list(NODES)


async def test_a_certificate_of_another_authority_is_refused(tmp_path: Path) -> None:
    async with EmbeddedServer() as server, EmbeddedServer() as other:
        server.identity = other.identity  # the kubeconfig now trusts the other's authority
        kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
        async with await Kube.connect(ClientSettings(kubeconfig=kubeconfig, attempts=1)) as kube:
            with pytest.raises(Unreachable, match="certificate verify failed") as caught:
                await kube.list(NODES)
    assert isinstance(caught.value.__cause__, aiohttp.ClientConnectorCertificateError)


@pytest.mark.parametrize("watch_list", [False, True], ids=["pages", "streamed"])
async def test_the_copy_equals_the_server(tmp_path: Path, watch_list: bool) -> None:
    settings = InformerSettings(backoff_base=0.001, backoff_max=0.02, page_size=7, watch_list=watch_list)
    async with connected(tmp_path) as (_, kube):
        for number in range(30):
            await kube.create(NODES, node(f"n{number}", rack=str(number % 3)))
        async with informed(kube, settings) as informer:
            await informer.synced(60)
            assert labels_here(informer) == await labels_at_server(kube)
            await kube.delete(NODES, "n3")
            await kube.create(NODES, node("new"))
            await until(lambda: "new" in informer.objects and "n3" not in informer.objects)
            assert labels_here(informer) == await labels_at_server(kube)


async def churn(kube: Kube, faults: Faults, steps: int) -> None:
    """Random writes with random faults on the way."""
    dice = random.Random(7)
    for step in range(steps):
        name = f"n{dice.randrange(12)}"
        with suppress(NotFound, AlreadyExists):
            match dice.randrange(3):
                case 0:
                    await kube.create(NODES, node(name, step=str(step)))
                case 1:
                    body = {"metadata": {"labels": {"step": str(step)}}}
                    await kube.patch(NODES, name, body, kind=PatchKind.MERGE, repeatable=True)
                case 2:
                    await kube.delete(NODES, name)
        if step % 10 == 5:
            faults.drop_lines = 2
        faults.repeat_lines = step % 20 < 10


async def test_the_copy_equals_the_server_through_lost_and_repeated_lines(tmp_path: Path) -> None:
    faults = Faults()
    async with connected(tmp_path, faults, history=5) as (_, kube), informed(kube) as informer:
        await informer.synced(60)
        await churn(kube, faults, 200)
        await kube.create(NODES, node("last"))
        expected = await labels_at_server(kube)
        await until(lambda: labels_here(informer) == expected)


async def test_refusals_are_ridden_out(tmp_path: Path) -> None:
    faults = Faults()
    async with connected(tmp_path, faults) as (_, kube):
        faults.refuse = [500, 429, 503]
        async with informed(kube) as informer:
            await informer.synced(60)
            faults.refuse = [429, 429]
            await kube.create(NODES, node("n1"))
            await until(lambda: "n1" in informer.objects)


async def test_bookmarks_keep_the_version_of_a_quiet_watch_young(tmp_path: Path) -> None:
    settings = InformerSettings(backoff_base=0.001, backoff_max=0.02, silence=30.0)
    async with connected(tmp_path, bookmark_seconds=0.05) as (_, kube), informed(kube, settings) as informer:
        await informer.synced(60)
        await kube.create(NAMESPACES, {"metadata": {"name": "elsewhere"}})
        version = (await kube.list(NODES)).resource_version
        await until(lambda: informer._version == version)
        assert informer.last_error is None


async def test_events_reach_the_server(tmp_path: Path) -> None:
    async with connected(tmp_path) as (_, kube):
        await kube.create(NAMESPACES, {"metadata": {"name": "team"}})
        pod = {"metadata": {"name": "p", "namespace": "team", "uid": "u-1"}}
        recorder = EventRecorder(kube, "stowage")
        for _ in range(2):
            recorder.record(ref_to(PODS, pod), NORMAL, "Started", "it runs")
            await recorder.flush()
        [event] = (await kube.list(EVENTS, "team", field_selector="involvedObject.name=p")).items
        assert (event["count"], event["reason"], event["involvedObject"]["uid"]) == (2, "Started", "u-1")


async def test_two_candidates_share_a_lease(tmp_path: Path) -> None:
    async with connected(tmp_path) as (_, kube):
        await kube.create(NAMESPACES, {"metadata": {"name": "stowage"}})
        elections = [LeaderElection(kube, LeaderSettings("stowage", "controller", name)) for name in ("a", "b")]
        tasks = {e.settings.identity: asyncio.create_task(e.run(asyncio.Event().wait)) for e in elections}
        await until(lambda: any(e.is_leader for e in elections))
        [first] = [e.settings.identity for e in elections if e.is_leader]
        tasks.pop(first).cancel()
        await until(lambda: [e.settings.identity for e in elections if e.is_leader] == list(tasks))
        lease = await kube.get(LEASES, "controller", "stowage")
        assert lease["spec"]["leaseTransitions"] == 1
        for task in tasks.values():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def test_a_refresh_shows_what_a_silent_watch_kept_back(tmp_path: Path) -> None:
    silent = asyncio.Event()

    async def swallow(_: web.Request, __: RequestTarget, data: bytes) -> bytes:
        return b"" if silent.is_set() else data

    async with connected(tmp_path, on_send=swallow) as (_, kube), informed(kube) as informer:
        await informer.synced(60)
        silent.set()
        await kube.create(NODES, node("n1"))
        async with asyncio.timeout(60):
            await informer.refresh()
        assert set(informer.objects) == {"n1"}
        await kube.create(NODES, node("n2"))
        async with asyncio.timeout(60):
            await asyncio.gather(informer.refresh(), informer.refresh())
        assert set(informer.objects) == {"n1", "n2"}
