"""A copy that nobody watches for until something asks for it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from api.embedded.server import EmbeddedServer, EmbeddedSettings
from api.kube.client import Kube
from api.kube.informers.lazy_informer import LazyInformer
from api.kube.resources import STORAGE_CLASSES
from api.kube.settings import ClientSettings
from api.pod.volumes import StorageClass


@pytest.mark.asyncio
@pytest.mark.parametrize("early", [True, False], ids=["asked-before-it-runs", "asked-while-it-runs"])
async def test_it_lists_once_it_is_asked_for(early: bool, tmp_path: Path) -> None:
    async with (
        EmbeddedServer(EmbeddedSettings()) as server,
        await Kube.connect(ClientSettings(kubeconfig=server.kubeconfig(tmp_path / "kubeconfig"))) as kube,
    ):
        body = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"}}
        await kube.create(STORAGE_CLASSES, {**body, "provisioner": "csi.example.com"})
        informer, told = LazyInformer(kube, STORAGE_CLASSES, StorageClass), asyncio.Event()
        informer.on_synced(told.set)
        assert informer.is_settled
        await informer.synced(0.1)
        if early:
            informer.wake()
        task = asyncio.create_task(informer.run())
        if not early:
            await asyncio.sleep(0)
            assert not informer.objects
            informer.wake()
        assert not informer.is_settled
        await informer.synced(30)
        assert list(informer.objects) == ["fast"]
        await asyncio.wait_for(told.wait(), 30)
        task.cancel()
