"""Pods that no node takes after their gate was opened: what the Workload says, and when it goes back whole."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from admission.controllers.nodes.pod_displacer import PodDisplacer
from admission.controllers.nodes.unbound import (
    SchedulingWarning,
    UnboundController,
    UnboundPod,
    UnboundReader,
    WarningReader,
)
from admission.controllers.state.condition_table import Writer
from admission.controllers.state.evictions import Eviction
from admission.controllers.watch.cluster_view import Views
from admission.controllers.watch.projection import PodReader, ProjectedPod
from admission.controllers.write.evictor import Evictor
from admission.engine.ledger.ledger import Ledger
from api.embedded.patch import merge_patch
from api.kube.client import Kube
from api.kube.events import EventRecorder
from api.kube.informers.informer import Informer
from api.kube.informers.lazy_informer import LazyInformer
from api.kube.informers.store import Store
from api.meta import Condition, find_condition
from api.names import IS_GROUP_WORKLOAD, UNSCHEDULABLE, WORKLOAD_ANNOTATION
from api.workloads import Workload
from tests.builders import NOW, workload

SAYS = "0/3 nodes are available: 1 Insufficient cpu."
read = UnboundReader()
read_warning = WarningReader()


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


class PendingPods(Store[UnboundPod]):
    """The copy of pending pods, which is listed as soon as somebody asks for it, if the API server answers."""

    is_wanted = True
    answers = True

    @property
    def has_synced(self) -> bool:
        return self.is_wanted and self.answers

    def wake(self) -> None:
        self.is_wanted = True


class MoverOfNothing:
    """A displacer that finds no other place; it is told of workloads whose episode is over."""

    def __init__(self) -> None:
        self.moving: set[str] = set()

    def is_moving(self, key: str) -> bool:
        return key in self.moving

    def has_ended_pods(self, _: str) -> bool:
        return False

    def over(self, key: str) -> None:
        self.moving.discard(key)

    async def move(self, moved: Workload, _: object) -> float | None:
        self.moving.add(moved.key)
        return None


class UnboundServer:
    """Stands for the API server, for the copies of it, and for what is told. `bound` pods of the 16 are bound."""

    def __init__(self, timeout: float | None = 60.0, **fields: Any) -> None:
        self.workloads: Store[Workload] = Store("workloads")
        self.pods = PendingPods("pods")
        self.bound_pods: Store[ProjectedPod] = Store("pods", "bound")
        self.warnings: Store[SchedulingWarning] = Store("events")
        self.allocations, self.bound, self.displacer = self, 0, MoverOfNothing()
        self.told: list[str] = []
        self.evicted: list[Eviction] = []
        self.now = NOW + 100
        self.workloads.upsert(workload(admitted=True, count=16, **fields))
        self.timeout = timeout
        self.lead()

    def lead(self) -> None:
        """Builds the controller, as at the begin of each term: objects may be there already."""
        self.controller = UnboundController(
            cast("Kube", self),
            cast("Views", SimpleNamespace(workloads=self.workloads, pods=self.bound_pods)),
            cast("Ledger", self),
            cast("LazyInformer[UnboundPod]", self.pods),
            cast("Informer[SchedulingWarning]", self.warnings),
            cast("Evictor", self),
            cast("EventRecorder", self),
            self.timeout,
            lambda: self.now,
            displacer=cast("PodDisplacer", self.displacer),
        )

    def pods_of(self, _: str) -> range:
        return range(self.bound)

    def warn(self, namespace: str) -> None:
        meta = {"name": "e", "namespace": namespace, "uid": "e", "resourceVersion": "1"}
        self.warnings.upsert(read_warning(json.dumps({"metadata": meta, "reason": "FailedScheduling"}).encode()))

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


def unwatched(bound: int = 0) -> UnboundServer:
    """Returns a server whose pending pods nobody has asked for yet, with so many bound pods."""
    server = UnboundServer()
    server.pods.is_wanted, server.bound = False, bound
    return server


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


@pytest.mark.parametrize(("namespace", "watched"), [("ns", True), ("elsewhere", False)])
def test_the_first_warning_where_workloads_are_begins_the_watch_of_pending_pods(namespace: str, watched: bool) -> None:
    server = unwatched()
    server.warn(namespace)
    assert server.pods.is_wanted is watched


def test_a_warning_before_the_first_workload_begins_the_watch_with_it() -> None:
    """A new leader may be told of the events before it is told of the Workloads."""
    server = unwatched()
    first = server.workloads.objects["ns/wl"]
    server.workloads.delete_key("ns/wl")
    server.warn("ns")
    assert not server.pods.is_wanted
    server.workloads.upsert(first)
    assert server.pods.is_wanted


def test_a_warning_after_the_last_workload_begins_nothing() -> None:
    server = unwatched()
    server.workloads.delete_key("ns/wl")
    server.warn("ns")
    assert not server.pods.is_wanted


@pytest.mark.parametrize(
    ("bound", "seconds", "watched"),
    [
        ((16, 16), 10_000, False),
        ((14, 15), 10_000, False),
        ((15, 15), 60, True),
        ((0, 0), 599, False),
        ((0, 0), 600, True),
    ],
    ids=["all-bound", "one-more", "no-more", "none-soon", "none-late"],
)
@pytest.mark.asyncio
async def test_pods_that_are_late_begin_the_watch_although_no_warning_came(
    bound: tuple[int, int], seconds: int, watched: bool
) -> None:
    """`bound`: pods at the first look and at the second, which is so many seconds after the admission."""
    server = unwatched(bound[0])
    admitted = server.workloads.objects["ns/wl"].admitted_at
    assert admitted is not None
    server.now = admitted + 1
    await server.look()
    assert not server.pods.is_wanted
    server.now, server.bound = admitted + seconds, bound[1]
    await server.look()
    assert server.pods.is_wanted is watched
    if bound[1] < 16:
        assert server.again is not None, "it is looked at again"


@pytest.mark.asyncio
async def test_what_a_former_leader_reported_stays_until_pending_pods_are_listed() -> None:
    former = UnboundServer()
    former.pods.upsert(waiting(3))
    assert (await former.look() or pytest.fail("not reported")).status == "True"
    server = unwatched(16)
    server.workloads.delete_key("ns/wl")
    server.workloads.upsert(former.workloads.objects["ns/wl"])
    server.pods.answers = False
    condition = await server.look()
    assert server.pods.is_wanted
    assert condition is not None
    assert condition.status == "True"


@pytest.mark.asyncio
async def test_a_workload_that_is_deleted_while_its_pods_are_moved_is_forgotten() -> None:
    server = UnboundServer()
    server.pods.upsert(waiting(0))
    await server.look()
    assert server.displacer.moving == {"ns/wl"}
    server.workloads.delete_key("ns/wl")
    assert len(server.controller.reconciler.queue) == 1
    await server.controller._reconcile("ns/wl")
    assert server.displacer.moving == set()


def test_a_new_term_begins_with_what_is_there(caplog: pytest.LogCaptureFixture) -> None:
    server = unwatched(16)
    server.warn("ns")
    server.pods.is_wanted = False
    server.lead()
    assert server.pods.is_wanted
    assert caplog.text == ""


@pytest.mark.asyncio
async def test_a_workload_that_a_bound_pod_left_is_looked_at_again() -> None:
    server = unwatched(16)
    reader = PodReader()
    identity = {"name": "wl-00", "namespace": "ns", "uid": "u0", "resourceVersion": "1"}
    meta = {**identity, "annotations": {WORKLOAD_ANNOTATION: "wl"}}
    pod = reader(json.dumps({"metadata": meta, "spec": {"nodeName": "n1"}}).encode())
    server.bound_pods.upsert(pod)
    queue = server.controller.reconciler.queue
    queue.drop_plan("ns/wl")
    server.bound_pods.delete(pod)
    assert queue.planned == 1
