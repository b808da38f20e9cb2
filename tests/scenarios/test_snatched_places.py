"""A foreign pod takes a place between decision and binding: the Workload says so, and the gang still becomes whole.

An admission check holds each gang while its place is decided and none of its pods can be bound; the foreign pod takes a host of
that place; then the check lets the gang go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from admission.integrations.declared.declared import DeclaredJob
from api.assignment import decode
from api.errors import Conflict, NotFound
from api.kube.client import PatchKind
from api.kube.resources import ADMISSION_CHECKS, EVENTS, JOBS, JOBSETS, PODS, WORKLOADS
from api.meta import find_condition, is_true
from api.names import (
    ADMITTED,
    EVICTED,
    HOSTNAME_LABEL,
    POD_GROUP_NAME,
    POD_GROUP_TOTAL_COUNT,
    QUEUE_NAME_LABEL,
    QUOTA_RESERVED,
    REQUIRE_TOPOLOGY,
    REQUIRED_TOPOLOGY,
    UNSCHEDULABLE,
)
from api.workloads import Workload
from hack.controlplane.options import ClusterOptions
from tests.scenarios import test_job_kinds as kinds
from tests.scenarios.site import GROUP, RACK, Site, eventually
from tests.scenarios.test_explain import explain

pytestmark = pytest.mark.asyncio(loop_scope="session")
CONTROL_PLANE = ClusterOptions(jobset=True)

ENVIRONMENT = {"STOWAGE_CONTROLLER__UNSCHEDULABLE_TIMEOUT": "4s"}
MakeSite = Callable[[str], Site]
AT = "2026-01-01T00:00:00Z"


class AJob:
    """A Job without retries, so none of its pods can be replaced alone (test_unbound.py: one whose pods can)."""

    resource = JOBS

    def __init__(self, here: Site) -> None:
        self.here = here

    async def submit(self) -> None:
        job = self.here.job("gang", 2, {REQUIRE_TOPOLOGY: RACK}, gpus=4)
        await self.here.submit(job)

    async def follow(self) -> None:
        """What the gang's owner does from time to time."""


class AJobSet(AJob):
    resource = JOBSETS

    async def submit(self) -> None:
        await self.here.submit_jobset(
            {
                **(jobset := self.here.jobset("gang", {"workers": (1, 2)}, {REQUIRE_TOPOLOGY: RACK})),
                "spec": {
                    "replicatedJobs": [_of_four_gpus(each, self.here) for each in jobset["spec"]["replicatedJobs"]]
                },
            }
        )


def _of_four_gpus(replicated: dict[str, Any], here: Site) -> dict[str, Any]:
    replicated["template"]["spec"]["template"] = here.template(4)
    return replicated


class BareGang(AJob):
    """Plain pods of a group; their owner makes others, of other names, for those that end."""

    made = 0

    async def submit(self) -> None:
        for _ in range(2):
            await self._add()

    async def _add(self) -> None:
        template = self.here.template(4)
        labels = {QUEUE_NAME_LABEL: "lq", POD_GROUP_NAME: "gang"}
        annotations = {POD_GROUP_TOTAL_COUNT: "2", REQUIRED_TOPOLOGY: RACK, **template["metadata"]["annotations"]}
        meta = {"name": f"gang-{self.made}", "namespace": self.here.name, "labels": labels, "annotations": annotations}
        await self.here.make(PODS, {"metadata": meta, "spec": template["spec"]})
        self.made += 1

    async def follow(self) -> None:
        pods = (await self.here.kube.list(PODS, self.here.name, label_selector=f"{POD_GROUP_NAME}=gang")).items
        alive = [
            pod
            for pod in pods
            if not pod["metadata"].get("deletionTimestamp")
            and pod["status"].get("phase") not in ("Failed", "Succeeded")
        ]
        for _ in range(2 - len(alive)):
            await self._add()


class Declared(AJob):
    """A kind of a JobKind, whose controller has pods while the job is not suspended."""

    adapter: DeclaredJob

    async def submit(self) -> None:
        made, spec = kinds.product(self.here)
        made = {**made, "metadata": {"name": "racks.snatch.example.com"}}
        made["spec"] |= {"group": "snatch.example.com", "plural": "racks", "kind": "Rack"}
        self.adapter = await kinds.declared(self.here, made)
        await kinds.submit(
            self.here, self.adapter, "gang", {**spec, "rows": 1, "columns": 2, "cell": self.here.template(4)}
        )

    async def follow(self) -> None:
        job = await self.here.get_job("gang", self.adapter.resource)
        there = {pod["metadata"]["name"]: pod for pod in (await self.here.kube.list(PODS, self.here.name)).items}
        for pod in kinds.pods_of(self.adapter, job):
            name = pod["metadata"]["name"]
            if self.adapter.is_suspended(job) and name in there:
                await self.here.kube.delete(PODS, name, self.here.name, grace_seconds=0)
            elif not self.adapter.is_suspended(job) and name not in there:
                await self.here.make(PODS, pod)
        running = sum(1 for pod in there.values() if pod["metadata"]["name"].startswith("gang-"))
        await kinds.says(self.here, self.adapter, "gang", "Working" if running else "Waiting", running)


KINDS = [AJob, AJobSet, BareGang, Declared]


@pytest.mark.parametrize("kind", KINDS, ids=[each.__name__ for each in KINDS])
async def test_a_gang_whose_place_is_snatched_says_so_and_becomes_whole(site: MakeSite, kind: type[AJob]) -> None:
    here = site(f"snatched-{kind.__name__.lower()}")
    await opened(here)
    gang = kind(here)
    await gang.submit()
    workload = await eventually("its place is decided", lambda: workload_with(here, QUOTA_RESERVED))
    host, _ = await snatched(here, workload)
    await approve(here, workload)
    said = await _until(here, gang, "the refused pod is named", lambda: _said(here, UNSCHEDULABLE))
    assert "no node takes 1 pod after the gate was opened (gang" in said
    assert "Insufficient nvidia.com/gpu" in said
    await eventually("an event names it", lambda: _event(here, "PodsUnschedulable"))
    if kind in (AJob, AJobSet):
        assert "no node takes 1 pod" in await explain(here, "gang", as_json=False)
    await _until(here, gang, "the gang goes back whole", lambda: _event(here, "EvictedDueToPodsUnschedulable"))
    again = await _until(here, gang, "another place is decided", lambda: workload_with(here, QUOTA_RESERVED))
    await approve(here, again)
    pods = await _until(here, gang, "all pods are bound", lambda: _bound(here))
    assert len(await here.racks(pods)) == 1
    assert host not in {pod["spec"]["nodeName"] for pod in pods}


async def opened(here: Site) -> None:
    """Two racks of three hosts; a queue with a check that nobody but the test answers."""
    await here.make(
        ADMISSION_CHECKS, {"metadata": {"name": here.name}, "spec": {"controllerName": "example.com/snatch"}}
    )
    active = {"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": AT}
    await here.kube.patch(
        ADMISSION_CHECKS, here.name, {"status": {"conditions": [active]}}, kind=PatchKind.MERGE, subresource="status"
    )
    await here.open({"b1": {"r1": 3, "r2": 3}}, admissionChecksStrategy={"admissionChecks": [{"name": here.name}]})


async def workload_with(here: Site, condition: str) -> Workload | None:
    """The gang's Workload once it has the condition, and is not being evicted."""
    for item in (await here.kube.list(WORKLOADS, here.name)).items:
        found = Workload.from_wire(item)
        if is_true(found.status.conditions, condition) and not is_true(found.status.conditions, EVICTED):
            return found
    return None


def place(workload: Workload) -> tuple[str, str]:
    """A host of the decided place, and its rack."""
    assert workload.status.admission is not None
    [pod_set] = workload.status.admission.pod_set_assignments
    assert pod_set.topology_assignment is not None
    host = decode(pod_set.topology_assignment)[0][0][-1]
    _, block, rack, _ = host.rsplit("-", 3)
    return host, f"{block}/{rack}"


async def snatched(here: Site, workload: Workload) -> tuple[str, str]:
    """Binds a foreign pod to a host of the decided place; returns the host and its rack."""
    host, rack = place(workload)
    spec = {**here.template(4)["spec"], "nodeSelector": {HOSTNAME_LABEL: host, GROUP: here.name}}
    await here.make(PODS, {"metadata": {"name": "foreign", "namespace": here.name}, "spec": spec})

    async def bound() -> bool:
        return bool((await here.kube.get(PODS, "foreign", here.name))["spec"].get("nodeName"))

    await eventually("the foreign pod has the host", bound)
    return host, rack


async def approve(here: Site, workload: Workload) -> None:
    state = {"name": here.name, "state": "Ready", "message": "go", "lastTransitionTime": AT}
    body = {"status": {"admissionChecks": [state]}}
    while True:
        try:
            await here.kube.patch(
                WORKLOADS, workload.metadata.name, body, here.name, kind=PatchKind.MERGE, subresource="status"
            )
            return
        except Conflict:
            continue


async def _until(here: Site, gang: AJob, what: str, check: Callable[[], Any]) -> Any:
    """Waits, while the gang's owner does its part; tells what became of it otherwise."""

    async def step() -> Any:
        try:
            await gang.follow()
        except (Conflict, NotFound):
            return None
        return await check()

    try:
        return await eventually(what, step)
    except AssertionError as late:
        raise AssertionError(f"{late}; {await here.story('gang')}") from None


async def _said(here: Site, condition: str) -> str | None:
    workload = await workload_with(here, ADMITTED)
    found = find_condition(workload.status.conditions, condition) if workload else None
    return found.message if found is not None and found.status == "True" else None


async def _event(here: Site, reason: str) -> bool:
    return any(event["reason"] == reason for event in (await here.kube.list(EVENTS, here.name)).items)


async def _bound(here: Site) -> list[dict[str, Any]] | None:
    pods = [
        pod
        for pod in (await here.kube.list(PODS, here.name)).items
        if pod["metadata"]["name"] != "foreign"
        and pod["spec"].get("nodeName")
        and pod["status"].get("phase") == "Running"
        and not pod["metadata"].get("deletionTimestamp")
    ]
    return pods if len(pods) == 2 else None
