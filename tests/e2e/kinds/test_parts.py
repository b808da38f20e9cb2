"""Kinds that queue by what their controllers make of them: DisaggregatedSet with its real controller, MiniCluster, PodGang.

The operators of Flux and Grove cannot be fetched as Go modules. Stand-ins make the Indexed Job of a MiniCluster, with the
labels of `spec.jobLabels`, and the Workload and pods of a PodGang.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from api.errors import ApiError, NotFound
from api.kube.resources import CLUSTER_QUEUES, CRDS, EVENTS, JOBS, LEADER_WORKER_SETS, PODS, WORKLOADS, Resource
from api.meta import is_true
from api.names import FINISHED, LWS_NAME, QUEUE_NAME_LABEL, QUOTA_RESERVED, REQUIRED_TOPOLOGY, RETRIABLE_IN_GROUP
from api.workloads import Workload
from hack.controlplane.options import ClusterOptions
from tests.crds import crd_of
from tests.scenarios import test_grove as grove
from tests.scenarios.site import GPU, RACK, Site, eventually, never
from tests.scenarios.stage import Stage
from tests.scenarios.tenants import prioritized

pytestmark = pytest.mark.asyncio(loop_scope="module")
CONTROL_PLANE = ClusterOptions(lws=True)
Object = dict[str, Any]
SETS = Resource("disaggregatedset.x-k8s.io", "v1", "disaggregatedsets", "DisaggregatedSet")
MINI_CLUSTERS = Resource("flux-framework.org", "v1alpha2", "miniclusters", "MiniCluster")
ROLES = ("prefill", "decode")
PREEMPTION = {"withinClusterQueue": "LowerPriority"}
OF_SET = "stowage.test/set"


async def used(here: Site, gpus: int) -> None:
    """The queue's GPUs that are reserved."""

    async def check() -> bool:
        found = await here.kube.get(CLUSTER_QUEUES, here.name)
        flavors = found.get("status", {}).get("flavorsReservation") or []
        return [int(r["total"]) for flavor in flavors for r in flavor["resources"] if r["name"] == GPU] == [gpus]

    await eventually(f"{gpus} GPUs are reserved", check, seconds=90)


# ---- DisaggregatedSet


def a_set(here: Site, name: str, level: str = RACK) -> Object:
    """Two roles, each of one group of two pods in one rack; as its CRD has it, each role names the queue."""
    template = here.template()
    template["metadata"] = {"annotations": {REQUIRED_TOPOLOGY: level}, "labels": {OF_SET: name}}
    template["spec"]["restartPolicy"] = "Always"
    spec = {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": template}}
    roles = [{"name": role, "metadata": {"labels": {QUEUE_NAME_LABEL: "lq"}}, "spec": spec} for role in ROLES]
    return {"metadata": {"name": name, "namespace": here.name}, "spec": {"roles": roles}}


async def pods_of(here: Site, name: str, running: int) -> list[Object]:
    """Its pods, once so many run and the others wait at their gate."""

    async def check() -> list[Object] | None:
        page = await here.kube.list(PODS, here.name, label_selector=f"{OF_SET}={name}")
        live = [pod for pod in page.items if not pod["metadata"].get("deletionTimestamp")]
        runs = [pod for pod in live if pod["status"].get("phase") == "Running" and pod["spec"].get("nodeName")]
        gated = [pod for pod in live if pod["spec"].get("schedulingGates")]
        return runs if len(runs) == running and len(runs) + len(gated) == len(live) else None

    try:
        return await eventually(f"{running} pods of {name} run", check, seconds=90)
    except AssertionError as late:
        events = [(e["involvedObject"]["name"], e["message"]) for e in (await here.kube.list(EVENTS, here.name)).items]
        raise AssertionError(f"{late}; {events[-20:]}") from None


async def waiting(here: Site, count: int) -> None:
    """So many Workloads wait, each with a reason."""

    async def check() -> bool:
        found = [Workload.from_wire(item) for item in (await here.kube.list(WORKLOADS, here.name)).items]
        said = [
            c.message for w in found for c in w.status.conditions if c.type == QUOTA_RESERVED and c.status == "False"
        ]
        return len(said) == count and "" not in said

    await eventually(f"{count} Workloads wait", check, seconds=90)


async def test_groups_of_a_disaggregated_set_wait_run_in_one_rack_and_give_quota_back(stage: Stage) -> None:
    here = Site(stage.kube, "disaggregated")
    await here.open({"b1": {"r1": 1, "r2": 1}}, quota=4)
    await here.make(SETS, a_set(here, "first"))
    pods = await pods_of(here, "first", 4)
    groups: dict[str, list[Object]] = {}
    for pod in pods:
        groups.setdefault(pod["metadata"]["labels"][LWS_NAME], []).append(pod)
    assert sorted(Counter(map(len, groups.values())).items()) == [(2, 2)]
    assert [len(await here.racks(group)) for group in groups.values()] == [1, 1]
    await here.make(SETS, a_set(here, "second"))
    await waiting(here, 2)
    await pods_of(here, "second", 0)
    await here.remove(SETS, "first")
    await pods_of(here, "second", 4)
    await here.remove(SETS, "second")
    await used(here, 0)


async def test_a_preempted_group_of_a_disaggregated_set_starts_anew(stage: Stage) -> None:
    here = Site(stage.kube, "disaggregated-victim")
    await here.open({"b1": {"r1": 1}}, quota=4, preemption=PREEMPTION)
    await here.make(SETS, a_set(here, "victim"))
    before = {pod["metadata"]["uid"] for pod in await pods_of(here, "victim", 4)}
    await here.submit(await prioritized(here, here.job("urgent", 4), 100))
    await here.running("urgent", 4)
    await pods_of(here, "victim", 0)
    await here.remove(JOBS, "urgent")
    after = {pod["metadata"]["uid"] for pod in await pods_of(here, "victim", 4)}
    assert not before & after


async def test_a_malformed_role_is_refused_with_its_field(stage: Stage) -> None:
    """Its controller is refused the LeaderWorkerSet, which it writes into its log only; the text names the annotation."""
    here = Site(stage.kube, "disaggregated-bad")
    await here.open({"b1": {"r1": 1}}, quota=4)
    bad = a_set(here, "bad", "not a label!")
    await here.make(SETS, bad)
    role = bad["spec"]["roles"][0]
    meta = {"name": "bad-prefill", "namespace": here.name, **role["metadata"]}
    kind = {"apiVersion": LEADER_WORKER_SETS.api_version, "kind": LEADER_WORKER_SETS.kind}
    with pytest.raises(ApiError) as error:
        await here.kube.create(LEADER_WORKER_SETS, {**kind, "metadata": meta, "spec": role["spec"]})
    assert f"annotations[{REQUIRED_TOPOLOGY}]" in error.value.message

    async def made() -> bool:
        return bool((await here.kube.list(LEADER_WORKER_SETS, here.name)).items)

    await never("a LeaderWorkerSet of it", made)
    assert not (await here.kube.list(WORKLOADS, here.name)).items


# ---- Flux MiniCluster


async def mini_cluster(here: Site, name: str, size: int, **annotations: str) -> Object:
    """A MiniCluster with the queue in `jobLabels`, and its Job as Flux's operator makes it of that."""
    await here.make(CRDS, crd_of(MINI_CLUSTERS))
    spec = {"size": size, "jobLabels": {QUEUE_NAME_LABEL: "lq"}, "pod": {"annotations": annotations}}
    meta = {"name": name, "namespace": here.name}

    async def made() -> Object | None:
        try:
            return await here.make(MINI_CLUSTERS, {"metadata": meta, "spec": spec})
        except NotFound:
            return None

    flux = await eventually("MiniClusters are served", made)
    job = here.job(name, size, queue=None)
    job["spec"]["template"]["metadata"]["annotations"] = dict(flux["spec"]["pod"]["annotations"])
    owner = {"apiVersion": MINI_CLUSTERS.api_version, "kind": MINI_CLUSTERS.kind, "name": name, "controller": True}
    job["metadata"] |= {
        "labels": dict(flux["spec"]["jobLabels"]),
        "ownerReferences": [{**owner, "uid": flux["metadata"]["uid"]}],
    }
    return await here.kube.create(JOBS, {"apiVersion": JOBS.api_version, "kind": JOBS.kind, **job})


async def suspended(here: Site, name: str, wanted: bool = True) -> None:
    async def check() -> bool:
        job = await here.get_job(name)
        return bool(job["spec"].get("suspend")) is wanted and (not wanted or not await here.pods(name))

    await eventually(f"{name} is {'suspended' if wanted else 'started'}", check)


async def test_the_job_of_a_mini_cluster_waits_runs_in_one_rack_and_gives_quota_back(stage: Stage) -> None:
    here = Site(stage.kube, "flux")
    await here.open({"b1": {"r1": 1, "r2": 1}}, quota=4)
    first = await mini_cluster(here, "first", 4, **{REQUIRED_TOPOLOGY: RACK})
    assert first["spec"]["suspend"] is True
    pods = await here.running("first", 4)
    assert len(await here.racks(pods)) == 1
    await mini_cluster(here, "second", 4, **{REQUIRED_TOPOLOGY: RACK})
    await here.waits("second", "WaitingForQuota", "insufficient unused quota")
    await suspended(here, "second")
    await here.finish("first")
    await here.running("second", 4)

    async def over() -> bool:
        found = await here.workload_of("first")
        return found is not None and is_true(found.status.conditions, FINISHED)

    await eventually("the first one is Finished", over)
    await here.remove(MINI_CLUSTERS, "second")
    await used(here, 0)


async def test_a_preempted_mini_cluster_starts_anew(stage: Stage) -> None:
    here = Site(stage.kube, "flux-victim")
    await here.open({"b1": {"r1": 1}}, quota=4, preemption=PREEMPTION)
    await mini_cluster(here, "victim", 4, **{REQUIRED_TOPOLOGY: RACK})
    before = {pod["metadata"]["uid"] for pod in await here.running("victim", 4)}
    await here.submit(await prioritized(here, here.job("urgent", 4), 100))
    await here.running("urgent", 4)
    await suspended(here, "victim")
    await here.remove(JOBS, "urgent")
    assert not before & {pod["metadata"]["uid"] for pod in await here.running("victim", 4)}


async def test_a_malformed_mini_cluster_is_refused_with_its_field(stage: Stage) -> None:
    here = Site(stage.kube, "flux-bad")
    await here.open({"b1": {"r1": 1}}, quota=4)
    with pytest.raises(ApiError) as error:
        await mini_cluster(here, "bad", 4, **{REQUIRED_TOPOLOGY: "not a label!"})
    assert f"annotations[{REQUIRED_TOPOLOGY}]" in error.value.message
    assert await here.workload_of("bad") is None


# ---- Grove's PodGang


async def make_gang_pods(here: Site, name: str, first: int) -> None:
    """The gang's pods, numbered from `first`: pods in the place of deleted ones have names of their own."""
    for role, count in grove.ROLES.items():
        for number in range(first, first + count):
            pod = grove.pod(here, name, role, number)
            del pod["metadata"]["annotations"][RETRIABLE_IN_GROUP]  # else a preempted gang has ended
            await here.make(PODS, pod)


async def in_one_rack(here: Site, name: str) -> set[str]:
    """The UIDs of the gang's pods, which run in one rack."""
    pods = await grove.run(here, name)
    assert len(await here.racks(pods)) == 1
    return {pod["metadata"]["uid"] for pod in pods}


async def test_a_preempted_pod_gang_starts_anew_and_gives_its_quota_back(stage: Stage) -> None:
    here = Site(stage.kube, "grove-victim")
    await here.open({"b1": {"r1": 1, "r2": 1}}, quota=4, preemption=PREEMPTION)
    await grove.gang(here, "victim")
    await make_gang_pods(here, "victim", 0)
    before = await in_one_rack(here, "victim")
    await here.submit(await prioritized(here, here.job("urgent", 4), 100))
    await here.running("urgent", 4)
    await make_gang_pods(here, "victim", 10)
    await waiting(here, 1)
    await here.remove(JOBS, "urgent")
    assert not before & await in_one_rack(here, "victim")
    await here.kube.delete(WORKLOADS, "victim", here.name)
    for pod in await grove.pods_of(here, "victim"):
        await here.kube.delete(PODS, pod["metadata"]["name"], here.name)
    await used(here, 0)


async def test_a_malformed_pod_gang_never_starts_and_says_why(stage: Stage) -> None:
    """A Workload with a level that is none waits with a reason; one with a number that is none is refused."""
    here = Site(stage.kube, "grove-bad")
    await here.open({"b1": {"r1": 1}}, quota=4)
    await grove.gang(here, "bad", level="not-a-level")
    await make_gang_pods(here, "bad", 0)

    async def said() -> bool:
        found = Workload.from_wire(await here.kube.get(WORKLOADS, "bad", here.name))
        return any(
            c.type == QUOTA_RESERVED and c.status == "False" and "not contain the requested level" in c.message
            for c in found.status.conditions
        )

    await eventually("the Workload says why", said, seconds=90)
    with pytest.raises(ApiError) as error:
        await grove.gang(here, "none", level=3)  # type: ignore[arg-type]  # as a client without types may write it
    assert "spec.podSets[0].topologyRequest.required" in error.value.message
