"""The API of a controller process at an API server: certificate, CA in the APIServices, whom it trusts, whom it asks."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from admission.cli.local_cluster.ports import free_port
from admission.controllers.watch.cluster_view import Views
from admission.engine.queue.queues import PendingQueues
from admission.settings import AdmissionSettings
from admission.visibility import app
from api.embedded.server import EmbeddedServer, EmbeddedSettings
from api.kube.client import Kube, PatchKind
from api.kube.resources import API_SERVICES, CLUSTER_QUEUES, CONFIG_MAPS, CRDS, NAMESPACES, SECRETS
from api.kube.settings import ClientSettings
from api.text.manifests import read
from hack.controlplane.pki import Authority
from tests.crds import SHIPPED, shipped

CONFIG = Path(__file__).resolve().parents[3] / "config" / "visibility"
NAME = "stowage-visibility.stowage-system.svc"
PATH = "/apis/visibility.kueue.x-k8s.io/v1beta2/clusterqueues/cq/pendingworkloads"


@pytest.fixture
async def kube(tmp_path: Path) -> AsyncIterator[Kube]:
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(EmbeddedServer(EmbeddedSettings(tenants=frozenset({"tenant"}))))
        settings = ClientSettings(kubeconfig=server.kubeconfig(tmp_path / "config"))
        client = await stack.enter_async_context(await Kube.connect(settings))
        await client.create(NAMESPACES, {"metadata": {"name": "stowage-system"}})
        for service in read(CONFIG / "apiservice.yaml"):
            # as a Kueue has left it
            await client.create(API_SERVICES, {**service, "spec": {**service["spec"], "insecureSkipTLSVerify": True}})
        await client.create(SECRETS, read(CONFIG / "secret.yaml")[0])
        for file in sorted(SHIPPED.glob("kueue*.yaml")):
            await client.create(CRDS, shipped(file.stem))
        queue = {"apiVersion": CLUSTER_QUEUES.api_version, "kind": CLUSTER_QUEUES.kind, "metadata": {"name": "cq"}}
        await client.create(CLUSTER_QUEUES, {**queue, "spec": {}})
        yield client


@contextlib.asynccontextmanager
async def serving(kube: Kube) -> AsyncIterator[int]:
    """The API on a free port, with its informers."""
    port = free_port()
    section = {"enabled": True, "bindAddress": "127.0.0.1", "bindPort": port, "certificatePeriod": 0.2}
    settings = AdmissionSettings.model_validate({"visibility_server": section})
    views = Views(kube)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(informer.run()) for informer in views.all()]
        tasks.append(group.create_task(app.run(kube, settings, views, PendingQueues())))
        try:
            yield port
        finally:
            for task in tasks:
                task.cancel()


async def bundle(kube: Kube, version: str) -> str:
    """The CA by which the API server would trust us, once it is written."""
    async with asyncio.timeout(60):
        while True:
            spec = (await kube.get(API_SERVICES, f"{version}.visibility.kueue.x-k8s.io"))["spec"]
            if spec.get("caBundle"):
                assert not spec.get("insecureSkipTLSVerify")  # Kubernetes refuses both together
                return base64.b64decode(spec["caBundle"]).decode()
            await asyncio.sleep(0.05)


async def answer(port: int, context: ssl.SSLContext, user: str) -> tuple[int, Any]:
    """The list, as the API server asks for it: by the name of the Service."""
    url = f"https://127.0.0.1:{port}{PATH}"
    async with (
        aiohttp.ClientSession() as session,
        session.get(url, headers={"X-Remote-User": user}, ssl=context, server_hostname=NAME) as response,
    ):
        return response.status, await response.json()


async def first_status(port: int, context: ssl.SSLContext) -> int:
    """The status of the first answer: the CA is published before the server listens."""
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(aiohttp.ClientConnectorError):
                return (await answer(port, context, "alice"))[0]
            await asyncio.sleep(0.05)


async def answered(port: int, context: ssl.SSLContext, user: str) -> Any:
    """The items of the first answer with status 200, once the CA is trusted and the queues are known."""
    async with asyncio.timeout(60):
        while True:
            status, body = await answer(port, context, user)
            if status not in (401, 503):
                assert status == 200, body
                return body["items"]
            await asyncio.sleep(0.05)


async def test_the_proxy_is_trusted_once_its_ca_is_published(kube: Kube, tmp_path: Path) -> None:
    """Before, nobody is; the users' rights are those that the API server tells."""
    proxy = Authority(tmp_path / "proxy")
    pair = proxy.client("client", "front-proxy-client")
    async with serving(kube) as port:
        ca = await bundle(kube, "v1beta2")
        assert await bundle(kube, "v1beta1") == ca
        context = ssl.create_default_context(cadata=ca)
        context.load_cert_chain(pair.certificate, pair.key)
        assert await first_status(port, context) == 401
        data = {
            "requestheader-client-ca-file": proxy.certificate.read_text(),
            "requestheader-allowed-names": json.dumps(["front-proxy-client"]),
        }
        name = {"name": "extension-apiserver-authentication", "namespace": "kube-system"}
        await kube.create(CONFIG_MAPS, {"metadata": name, "data": data})
        assert await answered(port, context, "alice") == []
        assert (await answer(port, context, "tenant"))[0] == 403


async def test_another_ones_api_service_is_left_alone(kube: Kube) -> None:
    """As that of a Kueue which still runs."""
    theirs = "v1beta1.visibility.kueue.x-k8s.io"
    await kube.patch(API_SERVICES, theirs, {"spec": {"service": {"name": "kueue"}}}, kind=PatchKind.MERGE)
    async with serving(kube):
        await bundle(kube, "v1beta2")
        spec = (await kube.get(API_SERVICES, theirs))["spec"]
    assert "caBundle" not in spec
    assert spec["insecureSkipTLSVerify"] is True
