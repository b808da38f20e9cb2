"""The controller of JobKinds: which jobs are watched, and what a JobKind's condition says."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from admission.controllers.job_kinds import JobKindController
from admission.controllers.jobs.controller_context import ControllerContext
from admission.controllers.pods.sets.sets import SetController
from admission.controllers.watch.cluster_view import Views
from admission.integrations.declared.declared import DeclaredJob
from admission.integrations.job_kind_errors import read
from admission.integrations.job_kinds import JobKinds
from admission.integrations.pods.pod import QueuedPodReader
from admission.integrations.registry import KINDS
from api.errors import NotFound
from api.job_kinds import JobKind
from api.kube.informers.informer import Informer
from api.kube.resources import CRDS, JOB_KINDS, PODS, WORKLOADS
from api.meta import find_condition
from api.names import QUEUE_NAME_LABEL
from tests.admission.controllers.jobs.world import JobCluster, embedded
from tests.admission.integrations.test_job_kind_errors import GOOD, crane
from tests.crds import crd_of, shipped
from tests.tasks import eventually, running

CRANES = DeclaredJob(read(GOOD).spec).resource


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[JobCluster]:
    async with embedded(tmp_path) as made:
        await made.kube.create(CRDS, shipped("stowage.dev_jobkinds"))
        await eventually(lambda: _made(made, JOB_KINDS, GOOD))
        yield made
        KINDS.withdraw((CRANES.group, CRANES.kind))


async def _made(here: JobCluster, resource: Any, obj: dict[str, Any]) -> bool:
    try:
        await here.kube.create(resource, obj)
    except NotFound:
        return False
    return True


async def says(here: JobCluster, reason: str, name: str = GOOD["metadata"]["name"]) -> bool:
    found = JobKind.from_wire(await here.kube.get(JOB_KINDS, name))
    said = find_condition(found.status.conditions, "Active")
    return said is not None and said.reason == reason


async def queued(here: JobCluster, name: str) -> bool:
    owners = [w["metadata"]["ownerReferences"][0]["name"] for w in (await here.kube.list(WORKLOADS, "ns")).items]
    return name in owners


async def test_a_kind_is_watched_as_soon_as_it_is_served_and_again_after_a_lost_lease(here: JobCluster) -> None:
    kinds, pods = JobKinds(here.kube), Informer(here.kube, PODS, QueuedPodReader())
    sets = SetController(ControllerContext(here.kube, Views(here.kube), here.recorded), {}, pods)
    controller = JobKindController(here.kube, kinds, here.controller, sets, QUEUE_NAME_LABEL, time.time)

    def job(name: str) -> dict[str, Any]:
        meta = {"name": name, "namespace": "ns", "labels": {QUEUE_NAME_LABEL: "q"}}
        return {"apiVersion": CRANES.api_version, "kind": CRANES.kind, **crane(), "metadata": meta}

    async with running(kinds.informer.run()):
        async with running(controller.run()):
            await eventually(lambda: says(here, "NotServed"))
            await here.kube.create(CRDS, crd_of(CRANES))
            await eventually(lambda: says(here, "Managed"))
            await here.kube.create(CRANES, job("first"))
            await eventually(lambda: queued(here, "first"))
        # the Lease was lost meanwhile
        await here.kube.create(CRANES, job("second"))
        async with running(controller.run()):
            await eventually(lambda: queued(here, "second"))


async def test_of_two_job_kinds_for_one_kind_the_older_counts_until_it_is_deleted(here: JobCluster) -> None:
    """The other one says so, and takes over; jobs of the kind stay managed."""
    kinds, pods = JobKinds(here.kube), Informer(here.kube, PODS, QueuedPodReader())
    sets = SetController(ControllerContext(here.kube, Views(here.kube), here.recorded), {}, pods)
    controller = JobKindController(here.kube, kinds, here.controller, sets, QUEUE_NAME_LABEL, time.time)
    await here.kube.create(CRDS, crd_of(CRANES))
    name = "cranez.example.com"
    other = {**GOOD, "metadata": {"name": name}, "spec": {**GOOD["spec"], "plural": "cranez"}}
    async with running(kinds.informer.run(), controller.run()):
        await eventually(lambda: says(here, "Managed"))
        await here.kube.create(JOB_KINDS, other)
        await eventually(lambda: says(here, "Invalid", name))
        assert "cranes.example.com is older" in str(kinds.problems[name])
        assert await says(here, "Managed")
        assert KINDS.get((CRANES.group, CRANES.kind)) is kinds.adapters["cranes.example.com"]
        await here.kube.delete(JOB_KINDS, "cranes.example.com")
        await eventually(lambda: says(here, "NotServed", name))
        assert KINDS.get((CRANES.group, CRANES.kind)) is kinds.adapters[name]
        # it comes back, younger; the one that counts goes: jobs are managed again
        await here.kube.create(JOB_KINDS, GOOD)
        await here.kube.delete(JOB_KINDS, name)
        await eventually(lambda: says(here, "Managed"))
        await here.kube.create(CRANES, {
            "apiVersion": CRANES.api_version, "kind": CRANES.kind, **crane(),
            "metadata": {"name": "first", "namespace": "ns", "labels": {QUEUE_NAME_LABEL: "q"}},
        })  # fmt: skip
        await eventually(lambda: queued(here, "first"))
