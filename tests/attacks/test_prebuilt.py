"""A tenant's job that names the Workload of another job: it gets none of the other's quota, and its user reads why it waits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from api.errors import Forbidden
from api.kube.resources import EVENTS, JOBS, JOBSETS, PODS, Resource
from api.names import PREBUILT_WORKLOAD, QUEUE_NAME_LABEL, UNCONSTRAINED_TOPOLOGY
from tests.attacks.conftest import Battlefield
from tests.scenarios.site import eventually

pytestmark = pytest.mark.asyncio(loop_scope="package")
OWNER = "victim"
Obj = dict[str, Any]


@pytest_asyncio.fixture(scope="module", loop_scope="package")
async def workload(battlefield: Battlefield) -> AsyncIterator[str]:
    """The Workload of a job of another user in the tenant's namespace, which runs."""
    await battlefield.site.submit(battlefield.site.job(OWNER, 1))
    found = await battlefield.site.admitted(OWNER)
    yield found.metadata.name
    await battlefield.site.remove(JOBS, OWNER)


def thief(battlefield: Battlefield, resource: Resource, name: str) -> Obj:
    """An object of the kind that asks for one GPU, like the job that runs."""
    if resource is JOBS:
        return battlefield.site.job(name, 1)
    if resource is JOBSETS:
        return battlefield.site.jobset(name, {"work": (1, 1)}, {UNCONSTRAINED_TOPOLOGY: "true"})
    metadata = {"name": name, "labels": {QUEUE_NAME_LABEL: "lq"}, "annotations": {}}
    return {"metadata": metadata, "spec": battlefield.site.template()["spec"]}


async def told(battlefield: Battlefield, name: str, text: str) -> None:
    async def says() -> bool:
        events = (await battlefield.tenant.list(EVENTS, battlefield.namespace)).items
        mine = [event for event in events if event["involvedObject"]["name"] == name]
        return any(event["type"] == "Warning" and text in event["message"] for event in mine)

    await eventually(f"an event on {name} says: {text}", says)


async def runs_not(battlefield: Battlefield, resource: Resource, name: str) -> None:
    """The object waits; takes it away."""
    obj = await battlefield.admin.get(resource, name, battlefield.namespace)
    assert obj["spec"]["schedulingGates"] if resource is PODS else obj["spec"]["suspend"]
    await battlefield.site.remove(resource, name)


@pytest.mark.parametrize("part", ["labels", "annotations"])
@pytest.mark.parametrize("resource", [JOBS, JOBSETS, PODS], ids=lambda resource: resource.plural)
async def test_anothers_workload_starts_nothing(
    battlefield: Battlefield, workload: str, resource: Resource, part: str
) -> None:
    name = f"thief-{resource.plural}-{part}"
    obj = thief(battlefield, resource, name)
    obj["metadata"][part][PREBUILT_WORKLOAD] = workload
    await battlefield.create(resource, obj)
    await told(battlefield, name, f"belongs to the Job {OWNER}")
    await runs_not(battlefield, resource, name)
    assert len(await battlefield.site.running(OWNER, 1)) == 1


@pytest.mark.parametrize("resource", [JOBS, JOBSETS], ids=lambda resource: resource.plural)
async def test_a_workload_of_another_namespace_is_not_named(battlefield: Battlefield, resource: Resource) -> None:
    """By its name alone it is looked for in the job's own namespace; a path is no name."""
    await battlefield.honest.submit(battlefield.honest.job(OWNER, 1))
    found = await battlefield.honest.admitted(OWNER)
    elsewhere, name = found.metadata.name, f"far-{resource.plural}"
    obj = thief(battlefield, resource, name)
    obj["metadata"]["annotations"][PREBUILT_WORKLOAD] = f"{battlefield.honest.name}/{elsewhere}"
    with pytest.raises(Forbidden, match=PREBUILT_WORKLOAD):
        await battlefield.create(resource, obj)
    obj["metadata"]["annotations"][PREBUILT_WORKLOAD] = elsewhere
    await battlefield.create(resource, obj)
    await told(battlefield, name, f'"{battlefield.namespace}/{elsewhere}" not found')
    await runs_not(battlefield, resource, name)
    await battlefield.honest.running(OWNER, 1)
    await battlefield.honest.remove(JOBS, OWNER)
