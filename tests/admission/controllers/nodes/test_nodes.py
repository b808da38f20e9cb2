"""Node failures as they reach the controller while its own requests are in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from admission.controllers.nodes.node_controller import NodeController
from admission.controllers.watch.cluster_view import Views
from admission.controllers.write.evictor import Evictor
from api.errors import NotFound
from api.kube.client import Kube
from api.kube.events import EventRecorder
from api.kube.resources import PODS
from api.names import HOSTNAME_LABEL
from api.pod.pods import Pod, PodSpec
from tests.admission.controllers.full_node import RELEASED, RESERVED, FullNode
from tests.builders import NOW, pod


class NodeServer:
    """Stands for the API server: `meanwhile` happens between a list and its answer."""

    def __init__(self, meanwhile: Callable[[], None], waiting: Sequence[Pod] = ()) -> None:
        self.meanwhile, self.listed, self.written = meanwhile, asyncio.Event(), list[Any]()
        self.waiting, self.ended = waiting, dict[str, set[str]]()

    async def list(self, *_: Any, **__: Any) -> Any:
        self.meanwhile()
        self.listed.set()
        return SimpleNamespace(items=self.waiting, continue_=None)

    async def patch(self, resource: Any, name: str, body: Any, *__: Any, **___: Any) -> Any:
        self.written.append(name)
        if resource is PODS:
            self.ended[name] = {each["type"] for each in body["status"]["conditions"]}
        raise NotFound(404, "NotFound", f"{name} is gone")


async def idle(nodes: NodeController) -> None:
    while not nodes.reconciler.queue.idle:  # noqa: ASYNC110 - the queue tells nobody
        await asyncio.sleep(0)


@pytest.mark.parametrize("after", [True, False], ids=["ready-by-then", "still-not-ready"])
async def test_a_workload_admitted_while_a_new_node_becomes_ready_keeps_its_place(after: bool) -> None:
    """A new node is not ready for some milliseconds. What was seen of it before a request does not decide after it."""
    cluster = FullNode()
    cluster.low(RELEASED)
    cluster.node(False)
    for number in range(4):
        cluster.pod(number, "Failed")

    def admitted() -> None:
        cluster.node(after)
        cluster.low(RESERVED)

    server = NodeServer(admitted)
    await look_at_the_node(cluster, server)
    assert set(server.written) == (set() if after else {"low"})


async def test_a_pod_that_never_reached_a_failed_node_fails_as_pods_of_failed_nodes_do() -> None:
    """A Job whose podFailurePolicy ignores DisruptionTarget counts no failure."""
    cluster = FullNode()
    cluster.node(False)
    waiting = pod("low-9", owner="low", gated=False, phase="Pending")
    waiting = msgspec.structs.replace(waiting, spec=PodSpec(node_selector={HOSTNAME_LABEL: "n1"}))
    server = NodeServer(lambda: None, [waiting])
    await look_at_the_node(cluster, server)
    assert server.ended == {"low-9": {"TerminatedByKueue", "DisruptionTarget"}}


async def look_at_the_node(cluster: FullNode, server: NodeServer) -> None:
    view: Any = cluster.objects.view
    nodes = NodeController(
        cast("Kube", server),
        cast("Views", view),
        cluster.world.ledger,
        cast("Evictor", None),
        cast("EventRecorder", None),
        lambda: NOW,
    )
    nodes.reconciler.add("n1")
    running = asyncio.create_task(nodes.reconciler.run())
    try:
        async with asyncio.timeout(10):
            await server.listed.wait()
            await idle(nodes)
    finally:
        running.cancel()
