"""A cluster comes from Kueue: what Kueue left behind, and kinds that only Kueue manages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from api.errors import NotFound
from api.kube.resources import CRDS, EVENTS, NOT_MANAGED, WORKLOADS
from api.meta import find_condition
from api.names import IN_USE_FINALIZER, QUEUE_NAME_LABEL, QUOTA_RESERVED
from api.workloads import Workload
from tests.builders import pod_template
from tests.crds import crd_of
from tests.scenarios.site import RACK, Site, eventually, never

pytestmark = pytest.mark.asyncio(loop_scope="session")
SHARES_STAGE = True
MakeSite = Callable[[str], Site]

WORKFLOW = NOT_MANAGED["argoproj.io/workflow"]


async def workflow(here: Site, name: str) -> dict[str, Any]:
    """A Workflow with a queue name, once its CRD is served."""
    await here.make(CRDS, crd_of(WORKFLOW))
    body = {
        "metadata": {"name": name, "namespace": here.name, "labels": {QUEUE_NAME_LABEL: "lq"}},
        "spec": {"suspend": True},
    }

    async def made() -> dict[str, Any] | None:
        try:
            return await here.make(WORKFLOW, body)
        except NotFound:
            return None

    return await eventually("Workflows are served", made)


def leftover(here: Site, owner: dict[str, Any]) -> dict[str, Any]:
    """The Workload that Kueue made for the job."""
    reference = {
        "apiVersion": WORKFLOW.api_version,
        "kind": WORKFLOW.kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    meta = {
        "name": f"workflow-{owner['metadata']['name']}-1a2b3",
        "namespace": here.name,
        "finalizers": [IN_USE_FINALIZER],
        "ownerReferences": [reference],
    }
    pod_set = {"name": "worker", "count": 2, "template": pod_template("1")}
    return {"metadata": meta, "spec": {"queueName": "lq", "active": True, "podSets": [pod_set]}}


async def test_a_leftover_workload_of_a_kind_that_is_not_managed_takes_no_quota_and_can_be_deleted(
    site: MakeSite,
) -> None:
    here = site("leftover")
    await here.open({"b1": {"r1": 2}}, quota=2)
    job = await workflow(here, "train")
    made = await here.make(WORKLOADS, leftover(here, job))
    name = made["metadata"]["name"]

    async def refused() -> str | None:
        found = Workload.from_wire(await here.kube.get(WORKLOADS, name, here.name))
        condition = find_condition(found.status.conditions, QUOTA_RESERVED)
        return condition.message if condition and condition.reason == "OwnerNotManaged" else None

    said = await eventually("its status says why it gets no quota", refused)
    assert said.startswith("argoproj.io/v1alpha1 Workflow train owns this Workload")
    # all of the queue's quota is there for others
    await here.submit(here.job("job", 2, {"kueue.x-k8s.io/require-topology": RACK}))
    await here.running("job", 2)
    await here.kube.delete(WORKFLOW, "train", here.name)

    async def gone() -> bool:
        try:
            await here.kube.get(WORKLOADS, name, here.name)
        except NotFound:
            return True
        return False

    await eventually("the Workload goes with its owner", gone)


async def test_an_object_of_such_a_kind_with_a_queue_name_gets_an_event(site: MakeSite) -> None:
    here = site("unmanaged")
    await here.open({"b1": {"r1": 1}})
    job = await workflow(here, "train")

    async def told() -> str | None:
        for event in (await here.kube.list(EVENTS, here.name)).items:
            if event["reason"] == "KindNotManaged" and event["involvedObject"]["uid"] == job["metadata"]["uid"]:
                return str(event["message"])
        return None

    said = await eventually("an event says that nobody queues it", told)
    assert said.startswith("Workflow names the queue lq, and Stowage does not manage this kind")

    async def queued() -> bool:
        return bool((await here.kube.list(WORKLOADS, here.name)).items)

    await never("it gets a Workload", queued, 1.0)
