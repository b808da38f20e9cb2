"""Pods of an admitted workload that the API server refuses: what the Workload says, and when it goes back whole."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import REGISTRY

from admission.controllers.jobs.uncreated import CreationEvent, CreationEventReader, UncreatedController
from admission.controllers.state.condition_table import Writer
from admission.controllers.state.evictions import Eviction
from admission.controllers.watch.cluster_view import Views
from admission.controllers.watch.projection import ProjectedMeta, ProjectedPod
from admission.controllers.write.evictor import Evictor
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import BoundPod
from api.embedded.patch import merge_patch
from api.errors import NotFound
from api.kube.client import Kube
from api.kube.events import EventRecorder
from api.kube.informers.informer import Informer
from api.kube.informers.store import Store
from api.kube.resources import Resource
from api.meta import Condition, find_condition, parse_time, rfc3339
from api.names import NOT_CREATED, REQUEUED
from api.workloads import Workload, WorkloadStatus
from tests.builders import NOW, workload

SAYS = 'Error creating: pods "train-1" is forbidden: exceeded quota: team'
TIMEOUT = 60.0
JOB = ("batch/v1", "Job", "train", "uid-of-the-job")
CHILD = ("batch/v1", "Job", "set-workers-0", "uid-of-the-child")
SET = ("jobset.x-k8s.io/v1alpha2", "JobSet", "set", "uid-of-the-set")
read = CreationEventReader()


def event(
    about: tuple[str, str, str, str] = JOB, at: float = NOW + 5, *, reason: str = "FailedCreate", namespace: str = "ns"
) -> CreationEvent:
    api_version, kind, name, uid = about
    involved = {"apiVersion": api_version, "kind": kind, "name": name, "namespace": namespace, "uid": uid}
    meta = {"name": f"{name}.1", "namespace": namespace, "uid": "e", "resourceVersion": "1"}
    body = {
        "metadata": meta, "involvedObject": involved, "reason": reason, "message": SAYS, "type": "Warning",
        "lastTimestamp": rfc3339(at),
    }  # fmt: skip
    return read(json.dumps(body).encode())


def owner(about: tuple[str, str, str, str]) -> dict[str, Any]:
    return dict(zip(("apiVersion", "kind", "name", "uid"), about, strict=True)) | {"controller": True}


class Server:
    """Stands for the API server, for the copies of it, and for what is told. `bound` pods of four are bound."""

    def __init__(self, owned_by: tuple[str, str, str, str] = JOB, timeout: float | None = TIMEOUT) -> None:
        self.workloads: Store[Workload] = Store("workloads")
        self.events: Store[CreationEvent] = Store("events")
        self.pods: Store[ProjectedPod] = Store("pods")
        self.told: list[str] = []
        self.evictions: list[Eviction] = []
        self.objects: dict[str, Mapping[str, Any]] = {}
        self.now, self.bound = NOW + 10, 2
        self.allocations = SimpleNamespace(pods_of=lambda _: ["pod"] * self.bound)
        self.controller = UncreatedController(
            cast("Kube", self), cast("Views", self), cast("Ledger", self), cast("Informer[CreationEvent]", self.events),
            cast("Evictor", self), cast("EventRecorder", self), timeout, lambda: self.now,
        )  # fmt: skip
        self.workloads.upsert(workload(admitted=True, count=4, metadata={"ownerReferences": [owner(owned_by)]}))

    async def get(self, _: Resource, name: str, namespace: str) -> Mapping[str, Any]:
        if name not in self.objects:
            raise NotFound(404, "NotFound", name)
        return self.objects[name]

    async def patch(self, _: Any, name: str, body: Any, *__: Any, **___: Any) -> Workload:
        was = self.workloads.objects[f"ns/{name}"].to_wire()
        body["metadata"] = {"resourceVersion": str(int(was["metadata"]["resourceVersion"]) + 1)}
        return Workload.from_wire(merge_patch(was, body))

    async def write(self, _: Workload, status: WorkloadStatus, eviction: Eviction, by: Writer) -> None:
        self.evictions.append(eviction)
        self.status = status

    def record(self, _: Any, __: str, reason: str, message: str) -> None:
        assert reason == "PodsNotCreated"
        self.told.append(message)

    async def sees(self, happened: CreationEvent) -> Condition | None:
        self.events.upsert(happened)
        await self.controller._attribute(f"{happened.metadata.namespace}/{happened.metadata.name}")
        return await self.look()

    async def look(self) -> Condition | None:
        self.again = await self.controller._reconcile("ns/wl")
        return find_condition(self.workloads.objects["ns/wl"].status.conditions, NOT_CREATED)


def counted() -> float:
    samples = (sample for metric in REGISTRY.collect() for sample in metric.samples)
    return sum(sample.value for sample in samples if sample.name == "stowage_workloads_not_created_total")


async def test_the_workload_says_which_pods_are_refused_until_all_are_bound() -> None:
    server, before = Server(), counted()
    found = await server.sees(event())
    assert found is not None
    assert (found.status, found.reason) == ("True", "CreationRefused")
    await server.look()
    assert counted() == before + 1
    assert found.message == f"2 of 4 pods are not bound: {SAYS}"
    assert server.told == [found.message]
    server.bound = 4
    found = await server.look()
    assert found is not None
    assert (found.status, found.reason, server.again) == ("False", "Created", None)


async def test_a_workload_whose_pods_have_all_gone_says_that_it_holds_its_quota_until_one_is_back() -> None:
    server, before = Server(), counted()
    bound = BoundPod("ns/p", "host", {}, workload="ns/wl")
    server.pods.upsert(ProjectedPod(ProjectedMeta("p", "ns", "u", "1"), bound))
    server.pods.delete_key("ns/p")
    server.bound = 0
    assert await server.look() is None
    server.now += server.again or 0.0
    found = await server.look()
    assert found is not None
    assert (found.status, found.reason) == ("True", "NotReplaced")
    assert found.message.startswith("all 4 pods have gone, and no other is bound")
    assert counted() == before, "no pod was refused"
    server.now += 3600
    await server.look()
    assert server.evictions == []
    server.bound = 1
    found = await server.look()
    assert found is not None
    assert found.status == "False"
    assert server.again is None


async def test_a_pod_of_a_jobsets_job_counts_for_the_jobset() -> None:
    server = Server(SET)
    server.objects["set-workers-0"] = {"metadata": {"uid": CHILD[3], "ownerReferences": [owner(SET)]}}
    found = await server.sees(event(CHILD))
    assert found is not None
    assert found.status == "True"


@pytest.mark.parametrize(
    "happened",
    [
        pytest.param(event(reason="BackoffLimitExceeded"), id="of something else"),
        pytest.param(event(("batch/v1", "Job", "other", "another-uid")), id="of another job"),
        pytest.param(event(namespace="elsewhere"), id="of another namespace, with the uid of this job"),
        pytest.param(event(at=NOW - 3600), id="before the admission"),
        pytest.param(event(("v1", "ConfigMap", "train", "x")), id="of a kind that has no pods"),
    ],
)
async def test_an_event_that_does_not_concern_the_workload_says_nothing(happened: CreationEvent) -> None:
    server = Server()
    assert await server.sees(happened) is None
    assert server.told == []


async def test_an_event_is_nothing_where_all_pods_are_bound() -> None:
    server = Server()
    server.bound = 4
    assert await server.sees(event()) is None


async def test_an_object_of_the_same_name_that_is_another_one_concerns_nobody() -> None:
    server = Server(SET)
    server.objects["set-workers-0"] = {"metadata": {"uid": "a later one", "ownerReferences": [owner(SET)]}}
    assert await server.sees(event(CHILD)) is None


async def test_controllers_that_own_each_other_are_not_followed_for_ever() -> None:
    server = Server(SET)
    server.objects["set-workers-0"] = {"metadata": {"uid": CHILD[3], "ownerReferences": [owner(CHILD)]}}
    assert await server.sees(event(CHILD)) is None


async def test_what_is_still_refused_after_the_timeout_is_evicted_with_a_backoff() -> None:
    server = Server()
    await server.sees(event())
    server.now += TIMEOUT - 1
    await server.sees(event(at=server.now))
    assert server.evictions == []
    server.now += 2
    await server.look()
    [eviction] = server.evictions
    assert (eviction.reason, SAYS in eviction.message) == ("PodsNotCreated", True)
    state = server.status.requeue_state
    assert state is not None
    assert state.count == 1
    assert (parse_time(state.requeue_at) or 0.0) >= server.now + 60


async def test_a_workload_whose_pods_were_refused_long_ago_is_not_evicted() -> None:
    """Some of its pods may have ended since."""
    server = Server()
    await server.sees(event())
    server.now += 600
    found = await server.look()
    assert found is not None
    assert (found.status, server.evictions) == ("True", [])
    server.now += 600
    found = await server.look()
    assert found is not None
    assert found.status == "False"


async def test_without_a_timeout_nothing_is_evicted() -> None:
    server = Server(timeout=None)
    await server.sees(event())
    server.now += 10**6
    await server.sees(event(at=server.now))
    assert server.evictions == []
    assert find_condition(server.workloads.objects["ns/wl"].status.conditions, REQUEUED) is None
