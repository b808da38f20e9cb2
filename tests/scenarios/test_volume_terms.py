"""Volumes say which nodes take a pod: placement knows, so what is let through is bound.

On the real control plane its volume controller binds the claims, and kube-scheduler judges them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from api.kube.resources import CLAIMS, CSI_NODES, JOBS, STATEFUL_SETS, STORAGE_CLASSES, VOLUMES
from api.names import HOSTNAME_LABEL, QUEUE_NAME_LABEL, REQUIRE_TOPOLOGY
from api.pod.volumes import NO_PROVISIONER
from tests.scenarios.site import BLOCK, RACK, Site, eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")

SHARES_STAGE = True
MakeSite = Callable[[str], Site]


def with_claim(job: dict[str, Any], name: str = "data") -> dict[str, Any]:
    job["spec"]["template"]["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]
    return job


async def make_volume(here: Site, name: str, hosts: list[str], *, claim: str = "", mode: str = "ReadWriteOnce") -> None:
    """A PersistentVolume that these hosts reach, kept for the claim."""
    term = {"matchExpressions": [{"key": HOSTNAME_LABEL, "operator": "In", "values": hosts}]}
    spec: dict[str, Any] = {
        "capacity": {"storage": "1Gi"},
        "accessModes": [mode],
        "storageClassName": here.name,
        "local": {"path": "/data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    if claim:
        spec["claimRef"] = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": here.name, "name": claim}
    await here.make(
        VOLUMES, {"metadata": {"name": f"{here.name}-{name}"}, "spec": spec, "status": {"phase": "Available"}}
    )


async def make_claim(here: Site, name: str = "data", volume: str = "", mode: str = "ReadWriteOnce") -> None:
    """A claim; one that names its volume gets bound."""
    spec: dict[str, Any] = {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}}
    spec["storageClassName"] = here.name
    if volume:
        spec["volumeName"] = f"{here.name}-{volume}"
    await here.make(CLAIMS, {"metadata": {"name": name, "namespace": here.name}, "spec": spec})


async def make_class(here: Site, mode: str = "WaitForFirstConsumer") -> None:
    """A class of local volumes, which nobody makes."""
    metadata = {"name": here.name}
    await here.make(STORAGE_CLASSES, {"metadata": metadata, "provisioner": NO_PROVISIONER, "volumeBindingMode": mode})


async def test_pods_go_to_the_nodes_of_their_bound_volume(site: MakeSite) -> None:
    here = site("bound-volume")
    await here.open({"b1": {"r1": 3, "r2": 2}})
    hosts = [f"{here.name}-b1-r2-{n}" for n in range(2)]
    await here.submit(with_claim(here.job("gang", 2, {REQUIRE_TOPOLOGY: RACK}, gpus=4)))
    await here.waits("gang", "WaitingForObjects", "waits for PersistentVolumeClaim data to be created")
    await make_volume(here, "v", hosts, claim="data")
    await make_claim(here, volume="v")
    assert await here.racks(await here.running("gang", 2)) == {"b1/r2": 2}
    await here.submit(with_claim(here.job("large", 3, {REQUIRE_TOPOLOGY: RACK}, gpus=4)))
    await here.waits("large", "TopologyPlacementFailed", "volumes: 3")


async def test_a_claim_of_a_local_class_waits_for_a_volume_and_goes_to_its_node(site: MakeSite) -> None:
    here = site("local-volume")
    await here.open({"b1": {"r1": 2, "r2": 1}})
    await make_class(here)
    await make_claim(here)
    await here.submit(with_claim(here.job("gang", 1, {REQUIRE_TOPOLOGY: BLOCK}, gpus=4)))
    await here.waits(
        "gang", "WaitingForObjects", f"waits for a PersistentVolume of StorageClass {here.name} that matches"
    )
    host = f"{here.name}-b1-r2-0"
    await make_volume(here, "v", [host])
    [pod] = await here.running("gang", 1)
    assert pod["spec"]["nodeName"] == host


async def test_a_claim_of_one_pod_only_keeps_a_gang_out_and_a_second_job_until_the_first_has_ended(
    site: MakeSite,
) -> None:
    here, mode = site("one-pod-volume"), "ReadWriteOncePod"
    await here.open({"b1": {"r1": 2}})
    host = f"{here.name}-b1-r1-1"
    await make_volume(here, "v", [host], claim="data", mode=mode)
    await make_claim(here, volume="v", mode=mode)
    await here.submit(with_claim(here.job("gang", 2, gpus=1)))
    await here.waits("gang", "Misconfigured", "2 pods of this workload name it")
    await here.submit(with_claim(here.job("first", 1, gpus=1)))
    [pod] = await here.running("first", 1)
    assert pod["spec"]["nodeName"] == host
    await here.submit(with_claim(here.job("second", 1, gpus=1)))
    await here.waits("second", "WaitingForObjects", "data is ReadWriteOncePod, and ")
    await here.finish("first")
    await here.running("second", 1)


async def test_a_job_whose_claim_is_bound_at_once_waits_for_that(site: MakeSite) -> None:
    here = site("immediate-volume")
    await here.open({"b1": {"r1": 1}})
    await make_class(here, "Immediate")
    await make_claim(here)
    await here.submit(with_claim(here.job("gang", 1, gpus=1)))
    await here.waits("gang", "WaitingForObjects", "waits for PersistentVolumeClaim data to be bound")


async def test_the_workload_of_a_stateful_set_says_that_each_pod_has_a_claim(site: MakeSite) -> None:
    here = site("set-of-volumes")
    await here.open({"b1": {"r1": 2}})
    await make_class(here)
    for n in range(2):
        await make_volume(here, f"v{n}", [f"{here.name}-b1-r1-{n}"])
    template = here.template(1)
    template["metadata"]["labels"] = {"app": here.name}
    template["spec"]["restartPolicy"] = "Always"
    claims = [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": here.name,
                                                      "resources": {"requests": {"storage": "1Gi"}}}}]  # fmt: skip
    spec = {"replicas": 1, "serviceName": "web", "selector": {"matchLabels": {"app": here.name}}, "template": template}
    meta = {"name": "web", "namespace": here.name, "labels": {QUEUE_NAME_LABEL: "lq"}}
    await here.make(STATEFUL_SETS, {"metadata": meta, "spec": {**spec, "volumeClaimTemplates": claims}})
    workload = await eventually("a Workload", lambda: here.workload_of("web"))
    [volume] = workload.spec.pod_sets[0].template["spec"]["volumes"]
    assert volume["name"] == "data"


async def test_a_node_gets_no_more_volumes_than_its_driver_attaches(site: MakeSite) -> None:
    here, driver = site("attached-volumes"), "attached-volumes.example.com"
    await here.open({"b1": {"r1": 2}})
    await make_class(here)
    for n in range(2):
        name = f"{here.name}-b1-r1-{n}"
        limit = {"name": driver, "nodeID": name, "topologyKeys": None, "allocatable": {"count": 1}}
        await here.make(CSI_NODES, {"metadata": {"name": name}, "spec": {"drivers": [limit]}})
    for name in ("one", "two", "three"):
        spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": here.name}
        spec |= {"csi": {"driver": driver, "volumeHandle": name}}
        spec |= {
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": here.name, "name": name}
        }
        await here.make(
            VOLUMES, {"metadata": {"name": f"{here.name}-{name}"}, "spec": spec, "status": {"phase": "Available"}}
        )
        await make_claim(here, name, volume=name)
    for name in ("one", "two"):
        await here.submit(with_claim(here.job(name, 1, {REQUIRE_TOPOLOGY: RACK}), name))
    pods = [pod for name in ("one", "two") for pod in await here.running(name, 1)]
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 2
    await here.submit(with_claim(here.job("three", 1, {REQUIRE_TOPOLOGY: RACK}), "three"))
    await here.waits("three", "TopologyPlacementFailed", f'resource "attachable-volumes-csi-{driver}": 2')
    await here.finish("one")
    await here.running("three", 1)


async def test_each_pod_goes_to_a_host_that_has_a_volume_left(site: MakeSite) -> None:
    """By capacity alone both pods would go to one host, and its volume takes one of them."""
    here = site("volume-for-each-pod")
    await here.open({"b1": {"r1": 3}})
    await make_class(here)
    for n in range(2):
        await make_volume(here, f"v{n}", [f"{here.name}-b1-r1-{n}"])
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": here.name,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    jobs = {name: here.job(name, pods, {REQUIRE_TOPOLOGY: RACK}, gpus=1) for name, pods in (("gang", 2), ("large", 3))}
    for job in jobs.values():
        volume = {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}
        job["spec"]["template"]["spec"]["volumes"] = [volume]
    await here.submit(jobs["gang"])
    pods = await here.running("gang", 2)
    assert {pod["spec"]["nodeName"] for pod in pods} == {f"{here.name}-b1-r1-{n}" for n in range(2)}
    await here.submit(jobs["large"])
    await here.waits("large", "WaitingForObjects", "waits for 3 PersistentVolumes")


async def test_pods_that_share_an_unbound_claim_go_to_one_host_and_gangs_take_turns(site: MakeSite) -> None:
    """The volume is chosen when the first pod is bound. By capacity alone a gang would be on two hosts, and both
    gangs would count on the same volume.
    """
    here = site("shared-unbound")
    await here.open({"b1": {"r1": 3}})
    await make_class(here)
    for n in range(2):
        await make_volume(here, f"v{n}", [f"{here.name}-b1-r1-{n}"])
    for name in ("one", "two"):
        await make_claim(here, name)
    await here.submit(with_claim(here.job("large", 5, {REQUIRE_TOPOLOGY: RACK}, gpus=1), "one"))
    await here.waits(
        "large", "TopologyPlacementFailed", "at most 4 out of 5 pod(s) in one domain of kubernetes.io/hostname"
    )
    await here.remove(JOBS, "large")
    await asyncio.gather(
        *(here.submit(with_claim(here.job(name, 3, {REQUIRE_TOPOLOGY: RACK}, gpus=1), name)) for name in ("one", "two"))
    )
    hosts = dict[str, set[str]]()
    while len(hosts) < 2:
        name, used = await eventually("a gang runs", lambda: _runs_on(here, {"one", "two"} - hosts.keys()))
        hosts[name] = used
        await _bind_where_nobody_does(here, name, *used)
    assert sorted(map(len, hosts.values())) == [1, 1]
    assert hosts["one"] != hosts["two"]


async def _runs_on(here: Site, names: set[str]) -> tuple[str, set[str]] | None:
    for name in sorted(names):
        pods = [pod for pod in await here.pods(name) if pod["spec"].get("nodeName")]
        if len(pods) == 3:
            return name, {pod["spec"]["nodeName"] for pod in pods}
    return None


async def _bind_where_nobody_does(here: Site, claim: str, host: str) -> None:
    """The embedded server has nobody who chooses a volume."""
    if not (await here.kube.get(CLAIMS, claim, here.name))["spec"].get("volumeName"):
        volume = f"{here.name}-v{host.rpartition('-')[2]}"
        await here.change(CLAIMS, claim, {"spec": {"volumeName": volume}})
