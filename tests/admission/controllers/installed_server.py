"""An embedded API server on which everything is installed, but no process runs."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from admission.cli.local_cluster.install import install
from api.embedded.server import EmbeddedServer, EmbeddedSettings
from api.kube.client import Kube
from api.kube.resources import MUTATING_WEBHOOKS, NAMESPACES, VALIDATING_WEBHOOKS
from api.kube.settings import ClientSettings
from api.names import API_VERSION
from tests.builders import pod_template


@contextlib.asynccontextmanager
async def installed(folder: Path) -> AsyncIterator[Kube]:
    """Its client. Nobody answers for the webhooks, so there are none; there is the namespace `ns`."""
    async with EmbeddedServer(EmbeddedSettings(tls=False)) as server:
        settings = ClientSettings(kubeconfig=server.kubeconfig(folder / "kubeconfig"))
        async with await Kube.connect(settings) as kube:
            await install(kube, "https://127.0.0.1:1")
            for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
                for item in (await kube.list(resource)).items:
                    await kube.delete(resource, item["metadata"]["name"])
            await kube.create(NAMESPACES, {"metadata": {"name": "ns"}})
            yield kube


def small_workload(name: str) -> dict[str, Any]:
    """A Workload of one pod in the queue `lq`."""
    pod_set = {"name": "main", "count": 1, "template": pod_template()}
    made = {"apiVersion": API_VERSION, "kind": "Workload", "metadata": {"name": name, "namespace": "ns"}}
    return {**made, "spec": {"queueName": "lq", "podSets": [pod_set]}}
