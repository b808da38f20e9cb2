"""The dashboard beside the other processes of the stage: a process of its own, with the rights of config/dashboard."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from admission.cli.local_cluster.embedded import NAMESPACE
from admission.cli.local_cluster.install import CONFIG
from admission.cli.local_cluster.ports import free_port
from api.kube.resources import SECRETS
from api.text.manifests import read
from tests.attacks.conftest import DASHBOARD, Battlefield
from tests.attacks.flood import HOST, trusting_all
from tests.scenarios.site import eventually

API = "/api/v1/"


@dataclass(frozen=True)
class Page:
    """Where the dashboard answers."""

    port: int
    session: aiohttp.ClientSession

    async def ask(self, path: str, token: str, body: Any = None) -> tuple[int, bytes]:
        """Status and body of the answer."""
        url = f"https://{HOST}:{self.port}{path}"
        headers = {"Authorization": f"Bearer {token}"}
        async with self.session.request("POST" if body else "GET", url, json=body, headers=headers) as answer:
            return answer.status, await answer.read()

    async def what_if(self, token: str, text: str) -> tuple[int, list[str]]:
        """Status and errors of the answer to a manifest."""
        status, body = await self.ask(f"{API}what-if", token, {"yaml": text})
        answer = msgspec.json.decode(body)
        return status, answer.get("errors", [answer.get("message")])


@contextlib.asynccontextmanager
async def opened(battlefield: Battlefield, request: pytest.FixtureRequest) -> AsyncIterator[Page]:
    """The dashboard, once it has read the cluster."""
    folder, port = battlefield.stage.processes.folder, free_port()
    environment = {
        **os.environ,
        "STOWAGE_KUBECONFIG": str(await _kubeconfig(battlefield, request)),
        "STOWAGE_HEALTH_PORT": "0",
        "STOWAGE_DASHBOARD__HOST": HOST,
        "STOWAGE_DASHBOARD__PORT": str(port),
    }
    with (folder / "dashboard.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "admission", "dashboard", env=environment, stdout=log, stderr=log
        )
    connector = aiohttp.TCPConnector(ssl=trusting_all())
    try:
        async with aiohttp.ClientSession(connector=connector) as session:
            page = Page(port, session)

            async def answers() -> bool:
                assert process.returncode is None, (folder / "dashboard.log").read_text()[-2000:]
                with contextlib.suppress(OSError, aiohttp.ClientError):
                    # It signs the tenant in before it has read the cluster; only then are there answers about workloads.
                    signed_in = (await page.ask(f"{API}session", battlefield.token))[0] == 200
                    return signed_in and (await page.ask(f"{API}workloads", battlefield.token))[0] != 503
                return False

            await eventually("the dashboard has read the cluster and knows the tenant", answers)
            yield page
            assert process.returncode is None, "the dashboard's process has ended"
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def _kubeconfig(battlefield: Battlefield, request: pytest.FixtureRequest) -> Path:
    server = battlefield.stage.server
    if server is not None:
        for obj in read(CONFIG / "dashboard" / "secret.yaml"):
            await battlefield.site.make(SECRETS, obj)
        return server.kubeconfig(battlefield.stage.processes.folder / "dashboard.kubeconfig", token=DASHBOARD)
    cluster = request.getfixturevalue("package_cluster")
    for file in ("rbac", "secret", "topologies"):
        path = str(CONFIG / "dashboard" / f"{file}.yaml")
        await asyncio.to_thread(cluster.kubectl, "apply", "--server-side", "-f", path)
    account: Path = await asyncio.to_thread(cluster.service_account, NAMESPACE, f"stowage-{DASHBOARD}")
    return account
