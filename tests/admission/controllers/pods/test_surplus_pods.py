"""Pods that run beyond what was admitted: which ones are ended, when, and what the Workload says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from prometheus_client import REGISTRY

from admission.controllers.pods.surplus_pods import GRACE, PATIENCE, SurplusPodsController
from admission.controllers.watch.cluster_view import Views
from admission.controllers.watch.projection import ProjectedMeta, ProjectedPod
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import BoundPod, Payer
from api.embedded.patch import merge_patch
from api.errors import NotFound
from api.kube.client import Kube
from api.kube.events import EventRecorder
from api.kube.informers.store import Store
from api.kube.resources import PODS, Resource
from api.meta import Condition, find_condition, rfc3339
from api.names import BEYOND_ADMISSION
from api.workloads import Workload
from tests.builders import NOW, condition, workload

KEY = "ns/wl"
JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u", "controller": True}


class Server:
    """Stands for the API server, for the copies of it, for the ledger, and for what is told."""

    def __init__(self, admitted: Mapping[str, int], **fields: Any) -> None:
        self.workloads: Store[Workload] = Store("workloads")
        self.pods: Store[ProjectedPod] = Store("pods")
        self.stored: dict[str, dict[str, Any]] = {}
        self.silent: set[str] = set()
        self.deleted: list[str] = []
        self.seconds: list[int] = []
        self.told: list[tuple[str, str]] = []
        self.now, self.evicted = NOW, False
        self.sets = [SimpleNamespace(name=name, count=count) for name, count in admitted.items()]
        self.allocations = SimpleNamespace(pods={})
        self.bound = self
        self.controller = SurplusPodsController(
            cast("Kube", self), cast("Views", self), cast("Ledger", self), cast("EventRecorder", self), lambda: self.now
        )
        self.workloads.upsert(workload(admitted=bool(admitted), **fields))

    # ---- the cluster

    def runs(self, name: str, pod_set: str | None = "main", age: int = 0, **more: Any) -> None:
        """A pod of the Workload, bound `age` seconds ago; `owned` by the Job, else by nobody."""
        owners = [JOB] if more.get("owned", True) else []
        meta = {"name": name, "uid": f"uid-{name}", "creationTimestamp": rfc3339(NOW - age), "ownerReferences": owners}
        if more.get("going"):
            meta["deletionTimestamp"] = rfc3339(NOW)
        spec = {"terminationGracePeriodSeconds": more.get("grace", 3600)}
        self.stored[name] = {"metadata": meta, "spec": spec, "status": {"phase": more.get("phase", "Running")}}
        bound = BoundPod(f"ns/{name}", "host", {}, workload=KEY, pod_set=pod_set)
        self.allocations.pods[bound.key] = bound
        self.pods.upsert(
            ProjectedPod(ProjectedMeta(name, "ns", f"uid-{name}", "1"), bound, more.get("seen_going", False))
        )

    async def looks(self) -> Condition | None:
        """Reconciles the Workload as often as is due before `PATIENCE` is over, and once then."""
        again = await self.controller._reconcile(KEY)
        found = find_condition(self.workloads.objects[KEY].status.conditions, BEYOND_ADMISSION)
        self.again = again
        return found

    @property
    def is_planned(self) -> bool:
        return len(self.controller.reconciler.queue._plans) > 0

    # ---- the ledger

    def admission(self, _: str) -> Any:
        return SimpleNamespace(pod_sets=self.sets) if self.sets else None

    def is_evicted(self, _: str) -> bool:
        return self.evicted

    def pods_bound(self, _: str) -> int:
        return len(self.pods.objects)

    def staying(self, _: str) -> Iterator[BoundPod]:
        for pod in self.pods.objects.values():
            if pod.bound is not None and pod.metadata.name not in self.silent:
                yield pod.bound

    def payer_of(self, _: str) -> Payer:
        return Payer(KEY, "surplus-cq", "ns/lq")

    # ---- the API server

    async def list(self, resource: Resource, namespace: str, decode: type[Any]) -> Any:
        assert (resource, namespace) == (PODS, "ns")
        return SimpleNamespace(items=[msgspec.convert(pod, decode) for pod in self.stored.values()])

    async def delete(self, _: Resource, name: str, namespace: str, *, uid: str, grace_seconds: int) -> None:
        assert (namespace, uid) == ("ns", f"uid-{name}")
        if name not in self.stored:
            raise NotFound(404, "NotFound", name)
        self.seconds.append(grace_seconds)
        self.deleted.append(name)

    async def patch(self, _: Any, name: str, body: Any, *__: Any, **___: Any) -> Workload:
        was = self.workloads.objects[f"ns/{name}"].to_wire()
        body["metadata"] = {"resourceVersion": str(int(was["metadata"]["resourceVersion"]) + 1)}
        return Workload.from_wire(merge_patch(was, body))

    def record(self, _: Any, kind: str, reason: str, message: str) -> None:
        assert kind == "Warning"
        self.told.append((reason, message))


def counted() -> float:
    return REGISTRY.get_sample_value("stowage_surplus_pods_ended_total", {"cluster_queue": "surplus-cq"}) or 0.0


async def test_the_owner_has_time_to_end_them_and_the_workload_says_so_meanwhile() -> None:
    server, before = Server({"main": 2}, count=2), counted()
    for name in ("a", "b", "c"):
        server.runs(name)
    said = await server.looks()
    text = "3 pods of pod set main run, 2 were admitted. Those beyond the admission are ended"
    assert said is not None
    assert (said.status, said.reason, said.message) == ("True", "SurplusPods", text)
    assert (server.deleted, server.told) == ([], [("PodsBeyondAdmission", text)])
    server.now += PATIENCE - 1
    await server.looks()
    assert (server.deleted, len(server.told)) == ([], 1)
    server.now += 1
    await server.looks()
    assert len(server.deleted) == 1
    assert server.told[1:] == [
        ("SurplusPodEnded", f"Pod {server.deleted[0]} was ended: more pods ran than were admitted")
    ]
    assert counted() == before + 1
    assert server.again == 1.0, "to say soon that it is over"
    server.pods.delete_key(f"ns/{server.deleted[0]}")
    said = await server.looks()
    assert said is not None
    assert (said.status, said.message) == ("False", "no more pods run than were admitted")
    assert server.again is None


async def test_a_surplus_that_its_owner_ended_begins_its_time_anew() -> None:
    server = Server({"main": 1})
    server.runs("a")
    server.runs("b")
    await server.looks()
    server.pods.delete_key("ns/b")
    server.now += PATIENCE
    await server.looks()
    server.runs("c")
    await server.looks()
    assert server.deleted == []
    assert server.again == PATIENCE


async def ended(server: Server) -> Sequence[str]:
    """Those that are deleted once the owner has had its time."""
    await server.looks()
    server.now += PATIENCE
    await server.looks()
    return server.deleted


@pytest.mark.parametrize(("own", "seconds"), [(0, 0), (5, 5), (GRACE, GRACE), (3600, GRACE)])
async def test_a_surplus_pod_ends_within_its_own_time_and_at_most_half_a_minute(own: int, seconds: int) -> None:
    server = Server({"main": 1})
    server.runs("a", age=90)
    server.runs("b", grace=own)
    assert await ended(server) == ["b"]
    assert server.seconds == [seconds]


async def test_pods_without_a_controller_go_first_then_the_youngest() -> None:
    server = Server({"main": 2}, count=2)
    server.runs("young", age=1)
    server.runs("old", age=90)
    server.runs("middle", age=30)
    server.runs("nobodys", age=900, owned=False)
    assert await ended(server) == ["nobodys", "young"]


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"seen_going": True, "going": True}, id="is-being-deleted"),
        pytest.param({"going": True}, id="is-being-deleted-since-a-moment-ago"),
        pytest.param({"phase": "Succeeded"}, id="has-ended-a-moment-ago"),
    ],
)
async def test_no_pod_is_ended_in_place_of_one_that_goes(more: dict[str, Any]) -> None:
    server = Server({"main": 2}, count=2)
    server.runs("a")
    server.runs("b")
    server.runs("goes", **more)
    assert await ended(server) == []


async def test_pods_on_a_node_that_does_not_respond_are_left_alone() -> None:
    """They may have ended, and their replacements are admitted."""
    server = Server({"main": 1})
    server.runs("lost")
    server.runs("new")
    server.silent.add("lost")
    assert await ended(server) == []


@pytest.mark.parametrize(
    ("conditions", "evicted"), [([condition("Finished")], False), ([], True)], ids=["finished", "evicted"]
)
async def test_whose_owner_ends_all_pods_anyway_is_left_alone(conditions: list[dict[str, Any]], evicted: bool) -> None:
    server = Server({"main": 1}, conditions=conditions)
    server.evicted = evicted
    server.runs("a")
    server.runs("b")
    assert await ended(server) == []
    assert server.told == []


async def test_of_a_workload_without_admission_no_pod_stays() -> None:
    server = Server({})
    server.runs("a")
    assert server.is_planned
    assert await ended(server) == ["a"]
    assert server.told[0][1].startswith("1 pods of pod set main run, 0 were admitted")


async def test_a_pod_set_does_not_use_what_another_one_lacks() -> None:
    """A driver that has ended makes no room for a worker."""
    server = Server({"driver": 1, "worker": 2})
    for name in ("w1", "w2", "w3"):
        server.runs(name, "worker", owned=name != "w1")
    assert server.is_planned
    assert await ended(server) == ["w1"]


async def test_pods_that_name_no_pod_set_count_for_the_only_one_or_for_none() -> None:
    one, two = Server({"main": 1}), Server({"driver": 1, "worker": 1})
    for server in (one, two):
        server.runs("own", server.sets[0].name)
        server.runs("nameless", None, owned=False)
    assert await ended(one) == ["nameless"]
    assert await ended(two) == ["nameless"]
    assert two.told[0][1].startswith("1 pods of pod set (none) run, 0 were admitted")


async def test_pods_within_the_admission_cost_no_look() -> None:
    server = Server({"main": 2}, count=2)
    server.runs("a")
    server.runs("b")
    assert not server.is_planned


async def test_the_text_names_a_bounded_number_of_pod_sets() -> None:
    """Names of pod sets come from labels, which others may write while the webhook is away."""
    server = Server({"main": 1})
    for number in range(20):
        server.runs(f"p{number}", f"set-{number:02}")
    await server.looks()
    assert server.told[0][1].count("0 were admitted") == 8
    assert "and 12 more pod sets" in server.told[0][1]
