"""`stowage uninstall` while a process outside of the cluster still decides: it would suspend all jobs when their queues go."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hack.controlplane.cluster import ControlPlane
from hack.controlplane.options import ClusterOptions
from tests.e2e.test_uninstall import uninstall
from tests.scenarios.site import Site
from tests.scenarios.stage import real

CONTROL_PLANE = ClusterOptions()


@pytest.mark.asyncio
async def test_nothing_is_removed_while_a_process_outside_renews_its_lease(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    async with real(cluster, tmp_path) as stage:
        site = Site(stage.kube, "outside")
        await site.open({"b1": {"r1": 2}})
        await site.submit(site.job("train", 4))
        before = {pod["metadata"]["uid"] for pod in await site.running("train", 4)}
        objects = await asyncio.to_thread(
            cluster.kubectl, "get", "crd,clusterrole,mutatingwebhookconfiguration", "-o", "name"
        )
        code, said = await asyncio.to_thread(uninstall, cluster, "--yes")
        assert code == 2, said
        assert "still renews the lease stowage-" in said
        assert "stop it first" in said
        left = await asyncio.to_thread(
            cluster.kubectl, "get", "crd,clusterrole,mutatingwebhookconfiguration", "-o", "name"
        )
        assert left == objects
        assert {pod["metadata"]["uid"] for pod in await site.running("train", 4)} == before
    code, said = await asyncio.to_thread(uninstall, cluster, "--yes")
    assert code == 0, said
    running = await asyncio.to_thread(
        cluster.kubectl,
        "get",
        "pods",
        "-n",
        "outside",
        "-o",
        "jsonpath={.items[?(@.status.phase=='Running')].metadata.uid}",
    )
    assert set(running.split()) == before, "pods that run go on"
