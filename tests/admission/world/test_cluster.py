"""A world from a live cluster (the embedded API server): the same as from the cluster's own dump, and nothing written."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from admission.cli.local_cluster.install import manifests
from admission.engine.explain.explanation import Verdict
from admission.engine.features.forecast.run_time_records import record_of
from admission.engine.features.forecast.run_times import RunTimes, run_kind
from admission.engine.reasons import Reason
from admission.integrations.declared.functions.trainjob import CLUSTER_RUNTIMES, RUNTIMES
from admission.world.cluster import from_cluster, load_cluster
from admission.world.documents import Document
from admission.world.explaining import explained, found
from admission.world.files import add_jobs
from admission.world.rules import WorldRules
from admission.world.snapshot import capture_world, from_snapshot
from api.embedded.server import EmbeddedServer, EmbeddedSettings
from api.errors import Forbidden
from api.kube.client import Kube, Page, PatchKind
from api.kube.resources import ALL, CONFIG_MAPS, CRDS, NAMESPACES, POD_GROUPS, WORKLOADS, Resource
from api.kube.settings import ClientSettings
from api.names import (
    BACKFILL,
    BACKFILL_LEARNED,
    RUN_TIMES,
    RUN_TIMES_KEY,
    SAKKARA_GROUP,
    SAKKARA_GROUP_NAME,
    SAKKARA_TOPOLOGY,
)
from tests.admission.world.world_documents import RACK, Manifest, flat, job, manifest, node, queue, tree
from tests.crds import crd_of

RESOURCES = {(kind.api_version, kind.kind): kind for kind in ALL}
CRD_OBJECTS = [obj for obj in manifests() if obj["kind"] == CRDS.kind]
NOW = 1_800_000_000.0
LEARNS = WorldRules(run_times="stowage-system")


@pytest.fixture
def methods() -> list[str]:
    """The HTTP methods that the server was asked with."""
    return []


@pytest.fixture
async def server(methods: list[str]) -> AsyncIterator[EmbeddedServer]:
    async def heard(request: web.Request) -> None:
        methods.append(request.method)

    async with EmbeddedServer(EmbeddedSettings(seed=1, intercept=heard)) as started:
        yield started


@pytest.fixture
async def kube(server: EmbeddedServer, tmp_path: Path) -> AsyncIterator[Kube]:
    async with await Kube.connect(ClientSettings(kubeconfig=server.kubeconfig(tmp_path / "kubeconfig"))) as client:
        for crd in CRD_OBJECTS:
            await client.create(CRDS, crd)
        yield client


def workload(name: str, pods: int, require: str | None = None) -> Manifest:
    """A Workload of that many cpus."""
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": {}, "spec": {"restartPolicy": "Never", "containers": [container]}}
    pod_set = {"name": "main", "count": pods, "template": template, "topologyRequest": {"required": require}}
    return {
        "apiVersion": WORKLOADS.api_version,
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"queueName": "q", "podSets": [pod_set]},
    }


async def fill(kube: Kube, *arguments: Manifest | list[Manifest]) -> None:
    """Creates the objects; nodes become ready."""
    for obj in flat(arguments):
        kind = RESOURCES[obj["apiVersion"], obj["kind"]]
        if obj["kind"] == "Node":
            obj["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
            obj["metadata"]["labels"] |= {
                "kubernetes.io/hostname": obj["metadata"]["name"],
                "kubernetes.io/os": "linux",
            }
        await kube.create(kind, obj)


async def test_it_sees_what_the_controller_sees_and_only_reads(kube: Kube, methods: list[str]) -> None:
    await fill(kube, tree(2, 2), queue(), workload("w", 8, RACK), workload("big", 9, RACK))
    methods.clear()
    world = await from_cluster(kube, now=NOW)
    assert world.now == NOW
    assert not world.faults
    assert sorted(w.key for w in world.queues.workloads()) == ["default/big", "default/w"]
    report = world.cycle()
    assert (report.admitted, report.waiting) == (1, 1)
    assert set(methods) == {"GET"}


async def test_the_same_cluster_gives_the_same_bytes(kube: Kube) -> None:
    await fill(kube, tree(2, 2), queue(), workload("w", 8, RACK))
    one, other = await from_cluster(kube, now=NOW), await from_cluster(kube, now=NOW)
    assert capture_world(one).encode() == capture_world(other).encode()


def _record(owner: str = "", seconds: float = 20.0) -> dict[str, Any]:
    """Six runs of Workloads of the LocalQueue."""
    runs = RunTimes()
    for _ in range(6):
        runs.record(run_kind("default/q", owner, "w"), seconds)
    kind, counts = next((kind, counts) for kind, counts in runs.kinds() if kind.name)
    return record_of(kind, counts)


@pytest.mark.parametrize(
    ("rules", "data", "guess", "fault"),
    [
        pytest.param(LEARNS, {"kinds": [_record()]}, True, "", id="known"),
        pytest.param(WorldRules(), {"kinds": [_record()]}, False, "", id="without forecasts"),
        pytest.param(LEARNS, None, False, "", id="no ConfigMap"),
        pytest.param(LEARNS, {"kinds": 3}, False, "nothing of it is used", id="not a list"),
        pytest.param(
            LEARNS, {"kinds": [{**_record(), "most": -1}, _record()]}, True, "kinds[0].most: -1: ", id="a bad record"
        ),
    ],
)
async def test_workloads_have_the_guesses_that_the_controller_has(
    kube: Kube, rules: WorldRules, data: dict[str, Any] | None, guess: bool, fault: str
) -> None:
    queues = queue()
    queues[0]["metadata"]["annotations"] = {BACKFILL: "true", BACKFILL_LEARNED: "true"}
    await fill(kube, tree(2, 2), queues, workload("w", 8, RACK))
    if data is not None:
        await kube.create(NAMESPACES, {"metadata": {"name": "stowage-system"}})
        meta = {"name": RUN_TIMES, "namespace": "stowage-system"}
        text = msgspec.json.encode(data).decode()
        await kube.create(CONFIG_MAPS, {"metadata": meta, "data": {RUN_TIMES_KEY: text}})
    world = await from_cluster(kube, rules, now=NOW)
    waits = from_snapshot(capture_world(world)).queues.workload("default/w")
    assert waits is not None
    assert (waits.guess is not None) is guess
    assert [fault in str(each) for each in world.faults] == [True] * bool(fault)


async def test_would_this_run_now(kube: Kube) -> None:
    await fill(kube, tree(2, 2), queue(cpu=12), workload("w", 8, RACK))
    world, objects = await load_cluster(kube, now=NOW)
    keys = add_jobs(world, objects, [Document("job.yaml", job("fits", 4)), Document("job.yaml", job("not", 5))])
    assert [world.title(key) for key in keys] == ["Job default/fits", "Job default/not"]
    report = world.cycle()
    assert {decision.workload: type(decision).__name__ for decision in report.decisions} == {
        "default/w": "Admit",
        keys[0]: "Admit",
        keys[1]: "Wait",
    }


async def test_a_train_job_is_tried_with_the_runtime_that_the_cluster_has(kube: Kube) -> None:
    """One in the files goes before one of that name in the cluster."""
    for kind in (CLUSTER_RUNTIMES, RUNTIMES):
        await kube.create(CRDS, {"apiVersion": CRDS.api_version, "kind": CRDS.kind, **crd_of(kind)})
    await fill(kube, tree(2, 2), queue())
    here, there = runtime("torch", RUNTIMES, "1"), runtime("torch", CLUSTER_RUNTIMES, "1")
    await kube.create(RUNTIMES, here)
    await kube.create(CLUSTER_RUNTIMES, there)
    known = []
    for extra in ((), (runtime("torch", RUNTIMES, "2"),)):
        world, objects = await load_cluster(kube, now=NOW)
        jobs = [train_job("a", RUNTIMES.kind), train_job("b", CLUSTER_RUNTIMES.kind)]
        keys = add_jobs(world, objects, [Document("train.yaml", obj) for obj in (*jobs, *extra)])
        assert world.faults == []
        workloads = [world.workload(key) for key in keys]
        known.append([{p.name: p.requests["cpu"] for p in one.pod_sets} for one in workloads if one is not None])
    assert known == [[{"node": 1000}, {"node": 1000}], [{"node": 2000}, {"node": 1000}]]
    world, objects = await load_cluster(kube, now=NOW)
    assert add_jobs(world, objects, [Document("train.yaml", train_job("c", RUNTIMES.kind, "none"))]) == []
    assert "that exists" in str(world.faults[0])


def runtime(name: str, kind: Resource, cpu: str) -> Manifest:
    """A runtime of one pod set."""
    container = {"name": "node", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    labels = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    pods = {"spec": {"containers": [container]}}
    node = {"name": "node", "template": {"metadata": {"labels": labels}, "spec": {"template": pods}}}
    meta = {"name": name, **({"namespace": "default"} if kind.namespaced else {})}
    spec = {"mlPolicy": {"numNodes": 2}, "template": {"spec": {"replicatedJobs": [node]}}}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, "spec": spec}


def train_job(name: str, kind: str, of: str = "torch") -> Manifest:
    meta = {"name": name, "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": "q"}}
    spec = {"runtimeRef": {"kind": kind, "name": of}, "trainer": {"numNodes": 2}}
    return {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": meta, "spec": spec}


async def test_only_jobs_can_be_added(kube: Kube) -> None:
    await fill(kube, tree(1, 1), queue())
    world, objects = await load_cluster(kube, now=NOW)
    assert add_jobs(world, objects, [Document("more.yaml", node("another", "r0"))]) == []
    assert [str(fault) for fault in world.faults] == ["more.yaml: Node another: only jobs and pods can be added"]


async def test_what_the_engine_cannot_take_is_named(kube: Kube) -> None:
    bad = workload("bad", 1)
    bad["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "lots"
    await fill(kube, tree(1, 1), queue(), bad)
    world = await from_cluster(kube, now=NOW)
    assert [fault.object for fault in world.faults] == ["Workload default/bad"]
    assert "'lots'" in world.faults[0].message


async def test_a_gang_with_too_few_pods_is_explained_before_it_has_a_workload(kube: Kube) -> None:
    started = {"type": "Started", "status": "False", "reason": "WaitingForPods", "message": "2 of 3 pods exist"}
    started["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    await fill(kube, tree(1, 1), queue())
    group = {"metadata": {"name": "g", "namespace": "default"}, "spec": {"minMember": 3}}
    await kube.create(POD_GROUPS, {"apiVersion": POD_GROUPS.api_version, "kind": "PodGroup", **group})
    status = {"status": {"conditions": [started]}}
    await kube.patch(POD_GROUPS, "g", status, "default", kind=PatchKind.MERGE, subresource="status")
    world = await from_cluster(kube, now=NOW)
    key, _ = found(world, "default/g")
    told = explained(world, key)
    assert (told.verdict, told.reason, told.message) == (Verdict.BLOCKED, Reason.SUSPENDED, "2 of 3 pods exist")


def config_map(name: str, label: str, data: dict[str, str]) -> Manifest:
    meta = {"name": name, "namespace": "default", "labels": {label: ""}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


async def test_sakkaras_groups_and_trees_are_read(kube: Kube) -> None:
    """A group that has no Workload yet is explained in the words of its ConfigMap, and others can be tried."""
    tells = {"status": "Pending", "message": "2 of 3 pods exist"}
    units = '{"r0": {"r0-h0": {}}, "r1": {"gone": {}}}'
    await fill(
        kube,
        tree(1, 1),
        config_map("site", SAKKARA_TOPOLOGY, {"level-names": '["rack", "node"]', "tree": units}),
        config_map("waits", SAKKARA_GROUP, {"name": "g", "size": "3", **tells}),
        config_map("two", SAKKARA_GROUP, {"size": "2"}),
    )
    world, objects = await load_cluster(kube, now=NOW)
    assert [fault.object for fault in world.faults] == ["ConfigMap default/site"]
    assert explained(world, found(world, "default/g")[0]).message == "2 of 3 pods exist"
    spec = job("j")["spec"]["template"]["spec"]
    labels = {"metadata": {"labels": {SAKKARA_GROUP_NAME: "two"}}}
    pods = [manifest("Pod", name, "default", spec=spec, **labels) for name in ("a", "b")]
    assert add_jobs(world, objects, [Document("pods.yaml", pod) for pod in pods]) == ["default/two"]
    assert world.cycle().admitted == 1


async def test_without_the_right_to_read_config_maps_the_error_names_it(
    kube: Kube, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = kube.list_raw

    async def refused(kind: Resource, *arguments: Any, **named: Any) -> Page[msgspec.Raw]:
        if kind is CONFIG_MAPS:
            raise Forbidden(403, "Forbidden", "configmaps is forbidden")
        return await listed(kind, *arguments, **named)

    monkeypatch.setattr(kube, "list_raw", refused)
    world = await from_cluster(kube)
    assert [str(fault) for fault in world.faults] == [
        "the cluster: ConfigMaps: Sakkara's trees and groups are not known: configmaps is forbidden"
    ]


async def test_a_cluster_that_forbids_it_says_so(kube: Kube, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(*_: object, **__: object) -> None:
        raise Forbidden(403, "Forbidden", "topologies is forbidden")

    monkeypatch.setattr(kube, "list_raw", refused)
    with pytest.raises(Forbidden, match="topologies is forbidden"):
        await from_cluster(kube)
