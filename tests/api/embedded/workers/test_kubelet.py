"""The kubelets' stand-in, and the driver in real time."""

from __future__ import annotations

import asyncio

import pytest

from api.embedded.store import ObjectStorage
from api.embedded.workers.driver import Workers
from api.kube.resources import JOBS, NODES
from tests.api.embedded.workers.cluster import Cluster, job, pod, pod_template


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.node("a")
    return made


def test_a_new_node_becomes_ready_and_gets_a_size() -> None:
    cluster = Cluster()
    cluster.store.create(NODES, {"metadata": {"name": "n"}})
    cluster.store.create(NODES, {"metadata": {"name": "down", "labels": {"stowage.test/node-down": "1"}}})
    cluster.settle()
    ready = cluster.store.get(NODES, "n")
    assert cluster.conditions(ready) == {"Ready": "True"}
    assert ready["status"]["allocatable"]["cpu"] == "32"
    assert "conditions" not in cluster.store.get(NODES, "down").get("status", {})


@pytest.mark.parametrize(
    ("annotations", "phase", "reason"),
    [
        pytest.param({"stowage.test/run-for": "2500ms"}, "Succeeded", "Completed", id="succeeds"),
        pytest.param({"stowage.test/run-for": "2500ms", "stowage.test/exit-code": "3"}, "Failed", "Error", id="fails"),
        pytest.param({}, "Running", "", id="runs for ever"),
        pytest.param(
            {"stowage.test/run-for": "soon"}, "Running", "", id="runs for ever if nobody understands how long"
        ),
    ],
)
def test_pods_end_as_annotated(cluster: Cluster, annotations: dict[str, str], phase: str, reason: str) -> None:
    body = pod("p")
    body["metadata"]["annotations"] = annotations
    cluster.post(body)
    cluster.after(2.25)
    assert cluster.phases() == ["Running"]
    assert cluster.conditions(cluster.pods()[0])["Ready"] == "True"
    cluster.after(0.25)
    found = cluster.pods()[0]
    assert found["status"]["phase"] == phase
    state = found["status"]["containerStatuses"][0]["state"]
    assert state.get("terminated", {}).get("reason", "") == reason
    assert cluster.conditions(found)["PodScheduled"] == "True"


async def test_in_real_time_the_store_wakes_the_workers() -> None:
    store = ObjectStorage()
    workers = Workers(store)
    running = asyncio.create_task(workers.run())
    try:
        store.create(NODES, {"metadata": {"name": "n"}})
        await asyncio.sleep(0)
        store.create(JOBS, job(template=pod_template({"stowage.test/run-for": "50ms"})), "default")
        async with asyncio.timeout(60):
            watch = store.watch(JOBS)
            async for event in watch:
                if event.record.obj["status"].get("completionTime"):
                    break
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        workers.close()
