"""Pods that no node takes after their gate was opened: what the Workload says, and when it goes back whole."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from admission.controllers.nodes.unbound import UnboundController, UnboundPod, UnboundReader
from admission.controllers.state.condition_table import Writer
from admission.controllers.state.evictions import Eviction
from admission.controllers.watch.cluster_view import Views
from admission.controllers.write.evictor import Evictor
from api.embedded.patch import merge_patch
from api.kube.client import Kube
from api.kube.events import EventRecorder
from api.kube.informers.informer import Informer
from api.kube.informers.store import Store
from api.meta import Condition, find_condition
from api.names import IS_GROUP_WORKLOAD, UNSCHEDULABLE, WORKLOAD_ANNOTATION
from api.workloads import Workload
from tests.builders import NOW, workload

SAYS = "0/3 nodes are available: 1 Insufficient cpu."
read = UnboundReader()


def waiting(
    n: int, *, gated: bool = False, node: str = "", message: str = SAYS, reason: str = "Unschedulable"
) -> UnboundPod:
    meta = {
        "name": f"wl-{n:02}",
        "namespace": "ns",
        "uid": f"u{n}",
        "resourceVersion": "1",
        "annotations": {WORKLOAD_ANNOTATION: "wl"},
    }
    states = [{"type": "PodScheduled", "status": "False", "reason": reason, "message": message}]
    spec = {"schedulingGates": [{"name": "g"}] if gated else [], "nodeName": node}
    return read(json.dumps({"metadata": meta, "spec": spec, "status": {"conditions": states}}).encode())


class UnboundServer:
    """Stands for the API server, for the copies of it, and for what is told."""

    def __init__(self, timeout: float | None = 60.0, **fields: Any) -> None:
        self.workloads: Store[Workload] = Store("workloads")
        self.pods: Store[UnboundPod] = Store("pods")
        self.told: list[str] = []
        self.evicted: list[Eviction] = []
        self.now = NOW + 100
        self.workloads.upsert(workload(admitted=True, count=16, **fields))
        self.controller = UnboundController(
            cast("Kube", self),
            cast("Views", self),
            cast("Informer[UnboundPod]", self.pods),
            cast("Evictor", self),
            cast("EventRecorder", self),
            timeout,
            lambda: self.now,
        )

    async def patch(self, _: Any, name: str, body: Any, *__: Any, **___: Any) -> Workload:
        was = self.workloads.objects[f"ns/{name}"].to_wire()
        body["metadata"] = {"resourceVersion": str(int(was["metadata"]["resourceVersion"]) + 1)}
        return Workload.from_wire(merge_patch(was, body))

    def record(self, _: Any, __: str, reason: str, message: str) -> None:
        assert reason == "PodsUnschedulable"
        self.told.append(message)

    async def evict(self, _: Workload, eviction: Eviction, by: Writer) -> None:
        self.evicted.append(eviction)

    async def look(self) -> Condition | None:
        self.again = await self.controller._reconcile("ns/wl")
        return find_condition(self.workloads.objects["ns/wl"].status.conditions, UNSCHEDULABLE)


def test_pods_that_are_gated_bound_or_not_refused_yet_are_nothing() -> None:
    assert waiting(1, gated=True).workload is None
    assert waiting(1, node="n1").workload is None
    assert waiting(1, reason="SchedulerError").workload is None
    assert waiting(1).workload == "ns/wl"


@pytest.mark.asyncio
async def test_the_workload_names_the_pods_and_says_when_they_are_bound() -> None:
    server = UnboundServer()
    assert await server.look() is None
    for n in range(10):
        server.pods.upsert(waiting(n))
    found = await server.look()
    assert found is not None
    assert (found.status, found.reason) == ("True", "Unschedulable")
    assert found.message.startswith("no node takes 10 pods after the gate was opened (wl-00, wl-01,")
    assert found.message.endswith(f"and 2 more): {SAYS}")
    assert server.told == [found.message]
    assert server.again == 60
    for n in range(10):
        server.pods.delete_key(f"ns/wl-{n:02}")
    found = await server.look()
    assert found is not None
    assert (found.status, found.reason, found.message) == ("False", "Bound", "all pods are bound")
    assert len(server.told) == 1
    assert server.evicted == []


@pytest.mark.asyncio
async def test_a_changed_message_is_reported_after_a_while() -> None:
    server = UnboundServer()
    server.pods.upsert(waiting(0))
    await server.look()
    server.pods.delete_key("ns/wl-00")
    server.pods.upsert(waiting(0, message="x" * 5000))
    found = await server.look()
    assert found is not None
    assert found.message.endswith(SAYS)
    server.now += 11
    found = await server.look()
    assert found is not None
    assert found.message.endswith("xxx")
    assert len(found.message) < 1000
    assert len(server.told) == 1


@pytest.mark.asyncio
async def test_it_goes_back_whole_when_they_stay_so() -> None:
    server = UnboundServer()
    server.pods.upsert(waiting(3))
    await server.look()
    server.now += 59
    await server.look()
    assert (server.again, server.evicted) == (1, [])
    server.now += 1
    await server.look()
    [eviction] = server.evicted
    assert eviction.reason == "PodsUnschedulable"
    assert eviction.message == (
        "Pods could not be bound within 60 s after their gate was opened: no node takes 1 pod after the gate was opened "
        f"(wl-03): {SAYS}"
    )


@pytest.mark.asyncio
@pytest.mark.parametrize("never", ["setting", "plain pod"])
async def test_it_stays_where_the_setting_says_never_and_where_nothing_replaces_its_pod(never: str) -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "wl-03", "uid": "u3", "controller": True}
    plain = {"metadata": {"ownerReferences": [owner]}} if never == "plain pod" else {}
    server = UnboundServer(None if never == "setting" else 60.0, **plain)
    assert IS_GROUP_WORKLOAD not in server.workloads.objects["ns/wl"].metadata.annotations
    server.pods.upsert(waiting(3))
    found = await server.look()
    assert found is not None
    server.now += 1000
    await server.look()
    assert server.evicted == []
