"""Sakkara groups that evict others, and that are evicted: whole groups, the least that suffices, and no job fails by it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import pytest

from api.errors import NotFound
from api.kube.resources import (
    CONFIG_MAPS,
    CRDS,
    DEPLOYMENTS,
    JOBSETS,
    NAMESPACES,
    PODS,
    WORKLOADS,
    Resource,
)
from hack.controlplane.options import ClusterOptions
from tests.scenarios.sakkara import MakeSite, a_deployment, a_group, a_job, a_pod, are, create, stay, tree
from tests.scenarios.site import GROUP, Site, eventually
from tests.scenarios.stage import Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")
CONTROL_PLANE = ClusterOptions(jobset=True)
APP_WRAPPERS = Resource("example.com", "v1", "appwrappers", "AppWrapper")


async def test_a_group_evicts_whole_groups_of_lower_priority_the_least_that_suffice(
    site: MakeSite, stage: Stage
) -> None:
    here = site("priority")
    async with tree(here, {"r0": [4], "r1": [4], "r2": [4]}):
        for name, size, priority in (("low", 4, 0), ("mid", 4, 5), ("high", 4, 10)):
            await here.make(CONFIG_MAPS, a_group(here, name, size, priority=str(priority)))
            if stage.name == "embedded":
                await create(here, name, size)
            else:
                await here.make(DEPLOYMENTS, a_deployment(here, name, size))
            await are(here, f"{name}-", Running=size)
        # equal priority evicts nobody, nor does a group that would not fit even then
        for name, size, priority in (("equal", 4, 0), ("huge", 13, 100)):
            await here.make(CONFIG_MAPS, a_group(here, name, size, priority=str(priority)))
            await create(here, name, size)
        for name in ("low", "mid", "high"):
            await stay(here, f"{name}-", Running=4)
        await here.make(CONFIG_MAPS, a_group(here, "urgent", 3, priority="7"))
        await create(here, "urgent", 3)
        await are(here, "urgent-", Running=3)
        await are(here, "low-", **({} if stage.name == "embedded" else {"Gated": 4}))
        await are(here, "mid-", Running=4)
        await are(here, "high-", Running=4)
        await stay(here, "huge-", Gated=13)
        await here.change(CONFIG_MAPS, "mid", {"data": {"priority": "20"}})

        async def followed() -> bool:
            return bool((await here.kube.get(WORKLOADS, "mid", here.name))["spec"]["priority"] == 20)

        await eventually("the group's new priority holds while it runs", followed)


async def test_a_job_whose_group_is_evicted_runs_again_and_none_of_its_pods_has_failed(
    site: MakeSite, stage: Stage
) -> None:
    """Eight pods are evicted, and backoffLimit allows six to fail."""
    if stage.name == "embedded":
        pytest.skip("pods that the embedded API server's Job controller makes pass no webhooks")
    here = site("evicted-job")
    async with tree(here, {"r0": [4, 4]}):
        await here.make(CONFIG_MAPS, a_group(here, "low", 8))
        job = a_job(here, "low", 8)
        del job["spec"]["backoffLimit"]  # 6
        await here.submit(job)
        await are(here, "low-", Running=8)
        await here.make(CONFIG_MAPS, a_group(here, "high", 8, priority="5"))
        await create(here, "high", 8)
        await are(here, "high-", Running=8)
        await are(here, "low-", Gated=8)
        status = (await here.get_job("low"))["status"]
        assert (status.get("failed", 0), status.get("active")) == (0, 8)
        for number in range(8):
            await here.kube.delete(PODS, f"high-{number}", here.name)
        await are(here, "low-", Running=8)
        status = (await here.get_job("low"))["status"]
        assert (status.get("failed", 0), status.get("active")) == (0, 8)


DISRUPTED = {"type": "DisruptionTarget"}


def job_spec(here: Site, group: str, **spec: Any) -> dict[str, Any]:
    """Of a Job of two members, without a backoffLimit of ours; their killed containers end with a code, as by a kubelet."""
    made = a_job(here, group, 2)["spec"]
    del made["backoffLimit"]
    made["template"]["metadata"].setdefault("annotations", {})["stowage.test/exit-code"] = "143"
    return {**made, **spec}


WRAPPED = "wrapped"
"""The Job of a wrapper of a kind that Stowage does not manage."""
OWNERS: dict[str, dict[str, Any]] = {
    "once": {"backoffLimit": 0},
    WRAPPED: {"backoffLimit": 0},
    "plain": {"backoffLimit": 0, "completionMode": "NonIndexed"},
    "index": {"backoffLimitPerIndex": 0, "maxFailedIndexes": 0},
    "harsh": {
        "backoffLimit": 0,
        "podFailurePolicy": {
            "rules": [
                {"action": "FailJob", "onPodConditions": [{**DISRUPTED, "status": "True"}]},
                {"action": "Ignore", "onPodConditions": [{"type": "TerminationTarget", "status": "True"}]},
                {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [0]}},
            ]
        },
    },
}
"""Jobs that the first failure of a pod ends."""


async def an_app_wrapper(here: Site, job: Mapping[str, Any]) -> dict[str, Any]:
    """An AppWrapper of the Job, made as soon as its kind is served; a reference to it as the owner of the Job."""
    kind = {
        "kind": APP_WRAPPERS.kind,
        "plural": APP_WRAPPERS.plural,
        "singular": "appwrapper",
        "listKind": "AppWrapperList",
    }
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": APP_WRAPPERS.version, "served": True, "storage": True, "schema": schema}
    spec = {"group": APP_WRAPPERS.group, "scope": "Namespaced", "names": kind, "versions": [version]}
    await here.make(CRDS, {"metadata": {"name": f"{APP_WRAPPERS.plural}.{APP_WRAPPERS.group}"}, "spec": spec})
    metadata = {"name": WRAPPED, "namespace": here.name}
    body = {
        "metadata": metadata,
        "spec": {"components": [{"template": {"apiVersion": "batch/v1", "kind": "Job", **job}}]},
    }

    async def made() -> dict[str, Any] | None:
        with contextlib.suppress(NotFound):
            return await here.make(APP_WRAPPERS, body)
        return None

    uid = (await eventually("AppWrappers are served", made))["metadata"]["uid"]
    owner = {"apiVersion": APP_WRAPPERS.api_version, "kind": APP_WRAPPERS.kind, "name": WRAPPED, "uid": uid}
    return {**owner, "controller": True, "blockOwnerDeletion": True}


async def test_no_job_ends_by_the_eviction_of_its_group(site: MakeSite, stage: Stage) -> None:
    """Jobs that allow no failure at all, of each kind, an AppWrapper's, and a JobSet without restarts."""
    if stage.name == "embedded":
        pytest.skip("pods that the embedded API server's Job controller makes pass no webhooks")
    here = site("evicted-jobs")
    names = [*OWNERS, "set"]
    size = 2 * len(names)

    async def untouched() -> None:
        """None has failed or counts a failure."""
        for name in names:
            job = await here.get_job("set-part-0" if name == "set" else name)
            status = job.get("status", {})
            ended = [c["type"] for c in status.get("conditions") or () if c["status"] == "True"]
            seen = (status.get("failed", 0), status.get("failedIndexes", ""), ended)
            assert seen == (0, "", []), f"{name}: {status}"
        whole = (await here.get_job("set", JOBSETS))["status"]
        assert not whole.get("restarts"), whole
        assert not whole.get("terminalState"), whole

    async with tree(here, {"r0": [len(names)] * 2}):
        uids = {}
        for name in names:
            await here.make(CONFIG_MAPS, a_group(here, name, 2))
            if name == "set":
                replicated = [
                    {"name": "part", "replicas": 1, "template": {"spec": job_spec(here, name, backoffLimit=0)}}
                ]
                spec = {"replicatedJobs": replicated, "failurePolicy": {"maxRestarts": 0}}
                await here.submit_jobset({"metadata": {"name": name, "namespace": here.name}, "spec": spec})
            else:
                metadata: dict[str, Any] = {"name": name, "namespace": here.name}
                job = {"metadata": metadata, "spec": job_spec(here, name, **OWNERS[name])}
                if name == WRAPPED:
                    metadata["ownerReferences"] = [await an_app_wrapper(here, job)]
                made = await here.submit(job)
                uids[name] = made["metadata"]["uid"]
        for name in names:
            await are(here, f"{name}-", Running=2)
        await here.make(CONFIG_MAPS, a_group(here, "high", size, priority="5"))
        await create(here, "high", size)
        await are(here, "high-", Running=size)
        for name in names:
            await are(here, f"{name}-", Gated=2)
        await untouched()
        for number in range(size):
            await here.kube.delete(PODS, f"high-{number}", here.name)
        for name in names:
            await are(here, f"{name}-", Running=2)
        await untouched()
        for name, uid in uids.items():
            assert (await here.get_job(name))["metadata"]["uid"] == uid, "the same Job runs again"


async def test_the_priority_of_a_config_map_stops_nobody_in_other_namespaces(site: MakeSite) -> None:
    """Nor does it protect: what counts between namespaces is the PriorityClass of the pods, which a ResourceQuota can guard."""
    here, there = site("modest"), site("boasting")
    await there.make(NAMESPACES, {"metadata": {"name": there.name}})

    async def members_here(group: str, size: int, **data: str) -> None:
        """A group of the other namespace on the nodes of this one."""
        await there.make(CONFIG_MAPS, a_group(there, group, size, **data))
        for number in range(size):
            pod = a_pod(there, f"{group}-{number}", group)
            pod["spec"]["nodeSelector"] = {GROUP: here.name}
            await there.make(PODS, pod)

    async with tree(here, {"r0": [4]}):
        await here.make(CONFIG_MAPS, a_group(here, "quiet", 4))
        await create(here, "quiet", 4)
        await are(here, "quiet-", Running=4)
        await members_here("loud", 4, priority="1000")
        await are(there, "loud-", Gated=4)
        await stay(here, "quiet-", Running=4)
        for number in range(4):
            await here.kube.delete(PODS, f"quiet-{number}", here.name)
        await are(there, "loud-", Running=4)
        # in its own namespace it decides
        await members_here("louder", 2, priority="1000")
        await stay(there, "louder-", Gated=2)
        await there.change(CONFIG_MAPS, "loud", {"data": {"priority": "1"}})
        await are(there, "louder-", Running=2)
