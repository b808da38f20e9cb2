"""The webhook process as a whole: it is not ready before a review can reach it."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from admission.cli.local_cluster.install import install
from admission.cli.local_cluster.ports import free_port
from admission.settings import AdmissionSettings, WebhookSection
from admission.webhook.app import run_webhook
from api.embedded.server import EmbeddedServer
from api.kube.client import Kube
from api.kube.settings import ClientSettings, ProcessSettings
from api.process.process import Process

HOST = "127.0.0.1"


async def test_it_is_ready_only_once_it_listens(tmp_path: Path) -> None:
    port = free_port()
    url = f"https://{HOST}:{port}"
    async with EmbeddedServer() as server:
        kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
        async with await Kube.connect(ClientSettings(kubeconfig=kubeconfig)) as kube:
            await install(kube, url)
        section = WebhookSection(host=HOST, port=port, url=url)
        process = Process(ProcessSettings("webhook"))
        task = asyncio.create_task(run_webhook(process, AdmissionSettings(kubeconfig=kubeconfig, webhook=section)))
        try:
            async with asyncio.timeout(60):
                while process.readiness() is not None:  # noqa: ASYNC110 - the very turn in which it changes
                    await asyncio.sleep(0)
            _, writer = await asyncio.open_connection(HOST, port)
            writer.close()
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
