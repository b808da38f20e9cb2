"""Objects of every dialect that come, run or wait, and go: for tests of what our processes keep of them.

`played` makes them under a name, waits for what each is to show, deletes them, and returns when the server has none left.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any, Final

from api.errors import NotFound
from api.kube.client import Kube
from api.kube.resources import (
    CLUSTER_QUEUES,
    COHORTS,
    CONFIG_MAPS,
    ELASTIC_QUOTAS,
    JOBS,
    JOBSETS,
    LOCAL_QUEUES,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    Resource,
)
from api.names import (
    POD_GROUP_NAME,
    POD_GROUP_TOTAL_COUNT,
    PREFERRED_TOPOLOGY,
    REQUIRE_TOPOLOGY,
    SIGS_GANG_GROUPS,
    SPARE_HOSTS,
)
from tests.scenarios import gangs, sakkara
from tests.scenarios.quota_tenants import Tenants
from tests.scenarios.site import RACK, Site, eventually
from tests.scenarios.tenants import RECLAIM, prioritized, tenant
from tests.scenarios.test_elastic_jobs import elastic, resize, settled

_NAMESPACED: Final = (JOBSETS, JOBS, PODS, POD_GROUPS, CONFIG_MAPS, WORKLOADS, ELASTIC_QUOTAS, LOCAL_QUEUES)
_CLUSTER: Final = (CLUSTER_QUEUES, COHORTS, RESOURCE_FLAVORS, TOPOLOGIES, WORKLOAD_PRIORITY_CLASSES, NODES, NAMESPACES)


async def played(kube: Kube, name: str) -> None:
    """One round. All names of its objects begin with `name`."""
    here = {part: Site(kube, f"{name}-{part}") for part in ("jobs", "pods", "tree", "quota")}
    await asyncio.gather(_jobs(here["jobs"]), _pods(here["pods"]), _tree(here["tree"]), _quota(here["quota"]))
    await _removed(kube, name)
    await eventually(f"nothing of {name} is left", lambda: _nothing_left(kube, name))


async def _jobs(here: Site) -> None:
    """Jobs that run, wait, are preempted, grow, lose a node, and ask for spare hosts; a JobSet; a Job that is malformed."""
    await here.open({"b1": {"r1": 3}}, cohortName=here.name)
    await here.make(COHORTS, {"metadata": {"name": here.name}})
    await tenant(here, "tight", 4, preemption=RECLAIM)
    await here.submit(here.job("runs", 2, {REQUIRE_TOPOLOGY: RACK}, run_for="100ms"))
    await here.submit(here.job("prefers", 2, {PREFERRED_TOPOLOGY: RACK}, run_for="100ms"))
    await here.submit(here.job("waits", 1, {REQUIRE_TOPOLOGY: RACK}, gpus=99))
    await here.submit(here.job("lost", 1, {REQUIRE_TOPOLOGY: RACK}, queue="nowhere"))
    spared = here.job("spared", 1, {REQUIRE_TOPOLOGY: RACK, SPARE_HOSTS: "1"}, gpus=4)
    await here.submit(spared)
    await here.running("spared", 1)
    await here.make(JOBSETS, here.jobset("set", {"a": (1, 1)}, {REQUIRE_TOPOLOGY: RACK}))
    await here.running("set", 1, jobset=True)
    await here.remove(JOBSETS, "set")
    await here.remove(JOBS, "spared")
    low = await prioritized(here, here.job("low", 1, {REQUIRE_TOPOLOGY: RACK}, gpus=4, queue="tight"), 1)
    await here.submit(low)
    await here.running("low", 1)
    high = await prioritized(here, here.job("high", 1, {REQUIRE_TOPOLOGY: RACK}, gpus=4, queue="tight"), 9)
    high["spec"]["template"]["spec"]["nodeSelector"] = {}
    await here.submit(high)
    await here.running("high", 1)
    await here.remove(JOBS, "low")
    await here.submit(elastic(here, "grows", 1))
    await settled(here, "grows", 1)
    await resize(here, "grows", 2)
    await settled(here, "grows", 2)
    (pod,) = await here.running("high", 1)
    await here.kube.delete(NODES, pod["spec"]["nodeName"])
    for job in ("runs", "prefers"):
        await eventually(f"{job} ended", lambda job=job: _ended(here, job))  # type: ignore[misc]


async def _pods(here: Site) -> None:
    """Plain pods, a group of pods, gangs of pods alone and together, a gang that waits for its members."""
    await here.open({"b1": {"r1": 3}})
    await gangs.create(here, gangs.a_pod(here, "alone-0", {}, gpus=1, queue="lq"))
    total = {POD_GROUP_TOTAL_COUNT: "2"}
    await gangs.create(
        here, *(gangs.a_pod(here, f"group-{i}", {POD_GROUP_NAME: "group"}, total, gpus=1, queue="lq") for i in range(2))
    )
    await gangs.create(
        here, *(gangs.a_pod(here, f"gang-{i}", gangs.said("gang", 2), gpus=1, queue="lq") for i in range(2))
    )
    both = {SIGS_GANG_GROUPS: json.dumps([f"{here.name}/left", f"{here.name}/right"])}
    await gangs.create(
        here,
        *(gangs.a_pod(here, f"{side}-0", gangs.said(side, 1), both, gpus=1, queue="lq") for side in ("left", "right")),
    )
    await gangs.create(here, gangs.a_pod(here, "short-0", gangs.said("short", 2), gpus=1, queue="lq"))
    for prefix, number in {"alone": 1, "group": 2, "gang": 2, "left": 1, "right": 1}.items():
        await gangs.expect_phases(here, f"{prefix}-", Running=number)
    await gangs.end(here, ["alone-0", "gang-0", "gang-1"])


async def _tree(here: Site) -> None:
    """Groups of Sakkara: one that runs, one of a level that the tree lacks."""
    units = {"r0": [2, 2], "r1": [2, 2]}
    await sakkara.site_of(here, units)
    await here.make(CONFIG_MAPS, sakkara.tree_of(here, units))
    await here.make(CONFIG_MAPS, sakkara.a_group(here, "packed", 3, {"rack": {"type": "pack"}}))
    await here.make(CONFIG_MAPS, sakkara.a_group(here, "wrong", 1, {"planet": {"type": "pack"}}))
    await sakkara.create(here, "packed", 3)
    await sakkara.create(here, "wrong", 1)
    await sakkara.are(here, "packed-", Running=3)


async def _quota(here: Site) -> None:
    """Namespaces with elastic quotas: a Job that borrows is evicted."""
    story = Tenants(here)
    await story.open({"n0": 2}, a=(1, 2), b=(1, 2))
    await story.run("a1", 1)
    await story.a_second_after("a1")
    await story.run("a2", 1)
    await story.submit("b1", 1)
    await story.runs("b1", 1)


async def _ended(here: Site, job: str) -> bool:
    status = (await here.get_job(job)).get("status") or {}
    return any(one["type"] == "Complete" and one["status"] == "True" for one in status.get("conditions") or ())


# ---- the end


async def _removed(kube: Kube, name: str) -> None:
    """Deletes everything whose name or namespace begins so, as `kubectl delete` does."""
    for resource in (*_NAMESPACED, *_CLUSTER):
        for obj in await _named(kube, resource, name):
            meta = obj["metadata"]
            try:
                await kube.delete(resource, meta["name"], meta.get("namespace"), propagation="Background")
            except NotFound:
                continue


async def _named(kube: Kube, resource: Resource, name: str) -> Sequence[dict[str, Any]]:
    return [obj for obj in (await kube.list(resource)).items if _belongs(obj, name)]


def _belongs(obj: dict[str, Any], name: str) -> bool:
    meta = obj["metadata"]
    return bool(meta["name"].startswith((name, f"tree-{name}")) or (meta.get("namespace") or "").startswith(name))


async def _nothing_left(kube: Kube, name: str) -> bool:
    return not any([await _named(kube, resource, name) for resource in (*_NAMESPACED, *_CLUSTER)])
