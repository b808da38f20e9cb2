"""Gangs with a shape, from the manifest to pods on nodes: slices and their layers, groups, constraints, relaxation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from api import names
from api.kube.resources import JOBSETS
from api.meta import find_condition
from api.workloads import MAX_POD_SETS
from hack.controlplane.options import ClusterOptions
from tests.scenarios.site import BLOCK, RACK, Site

pytestmark = pytest.mark.asyncio(loop_scope="session")
CONTROL_PLANE = ClusterOptions(jobset=True)
ENVIRONMENT = {"STOWAGE_CONTROLLER__WAIT_REPORT_PERIOD": "0.5"}

MakeSite = Callable[[str], Site]
Pods = list[dict[str, Any]]


def on_template(job: dict[str, Any], annotations: Mapping[str, str]) -> dict[str, Any]:
    """The Job with these annotations on its pod template."""
    job["spec"]["template"]["metadata"]["annotations"].update(annotations)
    return job


def grouped(jobset: dict[str, Any], name: str) -> dict[str, Any]:
    """The JobSet with all its pod sets in one placement group."""
    for replicated in jobset["spec"]["replicatedJobs"]:
        replicated["template"]["spec"]["template"]["metadata"]["annotations"][names.PODSET_GROUP_NAME] = name
    return jobset


async def ranks_by_rack(here: Site, pods: Pods) -> list[list[int]]:
    """The completion indexes of the pods of each rack."""
    racks: dict[str, list[int]] = {}
    for pod in pods:
        (rack,) = await here.racks([pod])
        racks.setdefault(rack, []).append(int(pod["metadata"]["labels"][names.JOB_COMPLETION_INDEX]))
    return sorted(sorted(ranks) for ranks in racks.values())


def by_host(pods: Pods) -> list[int]:
    return sorted(Counter(pod["spec"]["nodeName"] for pod in pods).values())


async def test_each_slice_of_a_job_lies_in_one_rack(site: MakeSite) -> None:
    here = site("slices")
    here.gpus_per_host = 3
    await here.open({"b1": {"r1": 2, "r2": 2, "r3": 2}})
    asked = {names.REQUIRED_TOPOLOGY: BLOCK, names.SLICE_REQUIRED_TOPOLOGY: RACK, names.SLICE_SIZE: "4"}
    await here.submit(on_template(here.job("sliced", 12, {names.PLACEMENT_PROFILE: "Compatible"}), asked))
    pods = await here.running("sliced", 12)
    assert await ranks_by_rack(here, pods) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    workload = await here.admitted("sliced")
    assert workload.metadata.annotations[names.PLACEMENT_PROFILE] == "Compatible"


async def test_layers_of_slices(site: MakeSite) -> None:
    here = site("layers")
    here.gpus_per_host = 3
    await here.open({"b1": {"r1": 2, "r2": 2}})
    layers = f'[{{"topology": "{RACK}", "size": 4}}, {{"topology": "{names.HOSTNAME_LABEL}", "size": 2}}]'
    asked = {names.REQUIRED_TOPOLOGY: BLOCK, names.SLICE_CONSTRAINTS: layers}
    await here.submit(on_template(here.job("layered", 8), asked))
    pods = await here.running("layered", 8)
    assert await ranks_by_rack(here, pods) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert by_host(pods) == [2, 2, 2, 2]


async def test_a_leader_and_its_workers_share_one_rack(site: MakeSite) -> None:
    here = site("pair")
    await here.open({"b1": {"r1": 2, "r2": 3}})
    jobset = here.jobset("js", {"leader": (1, 1), "workers": (2, 4)}, {names.REQUIRE_TOPOLOGY: RACK})
    await here.submit_jobset(grouped(jobset, "pair"))
    pods = await here.running("js", 9, jobset=True)
    assert await here.racks(pods) == {"b1/r2": 9}


async def test_three_pod_sets_of_one_group_share_one_rack(site: MakeSite) -> None:
    here = site("crowd")
    await here.open({"b1": {"r1": 2, "r2": 3}})
    jobset = here.jobset("js", {"chief": (1, 1), "servers": (1, 2), "workers": (2, 3)}, {names.REQUIRE_TOPOLOGY: RACK})
    await here.submit_jobset(grouped(jobset, "crowd"))
    pods = await here.running("js", 9, jobset=True)
    assert await here.racks(pods) == {"b1/r2": 9}
    assert (await here.get_job("js", JOBSETS))["spec"]["suspend"] is False


async def test_pod_sets_of_one_group_keep_whole_slices(site: MakeSite) -> None:
    """Block b1 has room for all pods, but not for whole slices; the group goes to b2, each slice to a rack."""
    here = site("sliced-group")
    await here.open({"b1": {"r1": 1, "r2": 1, "r3": 1, "r4": 1}, "b2": {"r1": 2, "r2": 2}})
    jobset = grouped(here.jobset("js", {"leader": (1, 1), "workers": (1, 10)}, {names.REQUIRE_TOPOLOGY: BLOCK}), "g")
    slices = {names.SLICE_REQUIRED_TOPOLOGY: RACK, names.SLICE_SIZE: "5"}
    workers = jobset["spec"]["replicatedJobs"][1]["template"]["spec"]
    workers["completionMode"] = "Indexed"
    workers["template"]["metadata"]["annotations"].update(slices)
    await here.submit_jobset(jobset)
    pods = await here.running("js", 11, jobset=True)
    assert {rack.partition("/")[0] for rack in await here.racks(pods)} == {"b2"}
    of_workers = [pod for pod in pods if "workers" in pod["metadata"]["name"]]
    assert await ranks_by_rack(here, of_workers) == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]


async def test_a_jobset_of_as_many_parts_as_a_workload_has_pod_sets_runs(site: MakeSite) -> None:
    """One part more is refused with the limit: row jobset-19-jobs of invalid_jobs.py."""
    here = site("many-parts")
    await here.open({"b1": {"r1": 5}})
    parts = {f"part{number}": (1, 1) for number in range(MAX_POD_SETS)}
    await here.submit_jobset(here.jobset("js", parts, {names.REQUIRE_TOPOLOGY: RACK}))
    await here.running("js", MAX_POD_SETS, jobset=True)


async def test_story_a_two_partitions_on_racks_of_their_own_each_packed(site: MakeSite) -> None:
    here = site("story-a")
    await here.open({"b1": {"r1": 2, "r2": 2, "r3": 2}})
    shape = '{"topology-rack": {"type": "spread", "partitions": 2}, "node": {"type": "pack"}}'
    await here.submit(here.job("parted", 8, {names.PLACEMENT_CONSTRAINTS: shape}))
    pods = await here.running("parted", 8)
    assert sorted((await here.racks(pods)).values()) == [4, 4]
    assert by_host(pods) == [4, 4]


async def test_story_b_packed_on_one_server_spread_over_its_nodes(site: MakeSite) -> None:
    here = site("story-b")
    await here.open({"b1": {"r1": 3, "r2": 1}})
    shape = f'{{"{RACK}": {{"type": "pack"}}, "node": {{"type": "spread", "min": 2, "max": 4}}}}'
    await here.submit(on_template(here.job("ranged", 6), {names.PLACEMENT_CONSTRAINTS: shape}))
    pods = await here.running("ranged", 6)
    assert await here.racks(pods) == {"b1/r1": 6}
    assert by_host(pods) == [2, 2, 2]


async def test_a_required_level_gives_way_with_time(site: MakeSite) -> None:
    here = site("relax")
    await here.open({"b1": {"r1": 1, "r2": 1}, "b2": {"r1": 1}})
    asked = {names.REQUIRE_TOPOLOGY: RACK, names.RELAX_TOPOLOGY_AFTER: "2s"}
    await here.submit(here.job("never", 13, asked))
    relaxed = f"pod set main: required level {RACK} relaxed to preferred {BLOCK} after 4s"
    await here.waits("never", "TopologyPlacementFailed", f"allows to fit only 12 out of 13 pod(s); {relaxed}")
    await here.submit(here.job("wide", 8, asked))
    pods = await here.running("wide", 8)
    assert await here.racks(pods) == {"b1/r1": 4, "b1/r2": 4}
    workload = await here.admitted("wide")
    reserved = find_condition(workload.status.conditions, names.QUOTA_RESERVED)
    assert reserved is not None
    told = f"Quota reserved in ClusterQueue relax; pod set main: required level {RACK} relaxed to "
    # a slow machine may come to it only after the second period
    assert reserved.message in (f"{told}{BLOCK} after 2s", f"{told}preferred {BLOCK} after 4s")
