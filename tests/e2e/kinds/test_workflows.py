"""Argo Workflows with Argo's controller: pods that run in parallel are a group, named in the step's template (18, shown 1).

The controller does not know in advance how many pods a Workflow has; of one step its author does. What the controller makes of
a pod that was preempted is said by the `retryStrategy` of the step.
"""

from __future__ import annotations

from typing import Any

import pytest

from api.kube.client import PatchKind
from api.kube.resources import JOBS, PODS, WORKLOADS, Resource
from api.meta import is_true
from api.names import (
    FINISHED,
    POD_GROUP_NAME,
    POD_GROUP_TOTAL_COUNT,
    QUEUE_NAME_LABEL,
    QUOTA_RESERVED,
    REQUIRED_TOPOLOGY,
)
from api.workloads import Workload
from hack.controlplane.options import ClusterOptions
from tests.e2e.kinds.spark_drivers import RUN_FOR
from tests.e2e.kinds.test_parts import used
from tests.scenarios.site import RACK, Site, eventually
from tests.scenarios.stage import Stage
from tests.scenarios.tenants import prioritized

pytestmark = pytest.mark.asyncio(loop_scope="module")
CONTROL_PLANE = ClusterOptions(operators=("argo",))
Object = dict[str, Any]
WORKFLOWS = Resource("argoproj.io", "v1alpha1", "workflows", "Workflow")
COUNT = 4
EXIT_CODE = "stowage.test/exit-code"
"""That of a pod's containers when it is deleted, as kwok reports it."""
TREE = {"b1": {"r1": 2, "r2": 2}}
OF_WORKFLOW = "workflows.argoproj.io/workflow"


async def workflow(here: Site, name: str, level: str = RACK) -> None:
    """One step of four pods, all in one domain of the level."""
    group = "{{workflow.name}}-step"
    metadata = {
        "labels": {QUEUE_NAME_LABEL: "lq", POD_GROUP_NAME: group},
        "annotations": {POD_GROUP_TOTAL_COUNT: str(COUNT), REQUIRED_TOPOLOGY: level, EXIT_CODE: "143"},
    }
    container = {**here.template()["spec"]["containers"][0], "command": ["true"]}
    work = {
        "name": "work",
        "metadata": metadata,
        "container": container,
        "retryStrategy": {"limit": "3", "retryPolicy": "Always"},
    }
    step = {"name": "step", "template": "work", "withSequence": {"count": str(COUNT)}}
    spec = {"entrypoint": "main", "templates": [{"name": "main", "steps": [[step]]}, work]}
    await here.make(WORKFLOWS, {"metadata": {"name": name, "namespace": here.name}, "spec": spec})


async def live_pods(here: Site, name: str) -> list[Object]:
    found = (await here.kube.list(PODS, here.name, label_selector=f"{OF_WORKFLOW}={name}")).items
    live = [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]
    return [pod for pod in live if pod["status"].get("phase") not in ("Failed", "Succeeded")]


async def runs(here: Site, name: str) -> list[Object]:
    """Its four pods, bound and running."""

    async def check() -> list[Object] | None:
        pods = [pod for pod in await live_pods(here, name) if pod["status"].get("phase") == "Running"]
        return pods if len(pods) == COUNT and all(pod["spec"].get("nodeName") for pod in pods) else None

    try:
        return await eventually(f"{COUNT} pods of {name} run", check, seconds=90)
    except AssertionError as late:
        raise AssertionError(f"{late}; {await status(here, name)}; {await here.story(f'{name}-step')}") from None


async def waits(here: Site, name: str) -> None:
    """All its pods are gated, and its one Workload says why."""

    async def check() -> bool:
        pods = await live_pods(here, name)
        found = [Workload.from_wire(one) for one in (await here.kube.list(WORKLOADS, here.name)).items]
        mine = [one for one in found if one.metadata.name == f"{name}-step"]
        said = [
            c.message for one in mine for c in one.status.conditions if c.type == QUOTA_RESERVED and c.status == "False"
        ]
        gated = len(pods) == COUNT and all(pod["spec"].get("schedulingGates") for pod in pods)
        return gated and len(said) == 1 and said[0] != ""

    try:
        await eventually(f"{name} waits", check, seconds=90)
    except AssertionError as late:
        raise AssertionError(f"{late}; {await status(here, name)}; {await here.story(f'{name}-step')}") from None


async def status(here: Site, name: str) -> Object:
    found: Object = (await here.get_job(name, WORKFLOWS)).get("status", {})
    return found


async def succeed(here: Site, name: str, pods: list[Object]) -> None:
    """Its pods end, and with them the Workflow."""
    body = {"metadata": {"annotations": {RUN_FOR: "1ms", EXIT_CODE: "0"}}}
    for pod in pods:
        await here.kube.patch(PODS, pod["metadata"]["name"], body, here.name, kind=PatchKind.MERGE)

    async def succeeded() -> bool:
        return (await status(here, name)).get("phase") == "Succeeded"

    await eventually(f"{name} succeeds", succeeded, seconds=90)


async def test_the_pods_of_a_step_wait_together_run_in_one_rack_and_give_quota_back(stage: Stage) -> None:
    here = Site(stage.kube, "workflow-step")
    await here.open(TREE, quota=COUNT)
    await workflow(here, "first")
    pods = await runs(here, "first")
    assert len(await here.racks(pods)) == 1
    await workflow(here, "second")
    await waits(here, "second")
    await succeed(here, "first", pods)
    await succeed(here, "second", await runs(here, "second"))
    await used(here, 0)
    found = [Workload.from_wire(one) for one in (await here.kube.list(WORKLOADS, here.name)).items]
    assert all(is_true(one.status.conditions, FINISHED) for one in found)


async def test_a_preempted_step_starts_anew_with_new_pods(stage: Stage) -> None:
    here = Site(stage.kube, "workflow-victim")
    await here.open(TREE, quota=COUNT, preemption={"withinClusterQueue": "LowerPriority"})
    await workflow(here, "victim")
    before = {pod["metadata"]["uid"] for pod in await runs(here, "victim")}
    await here.submit(await prioritized(here, here.job("urgent", COUNT), 100))
    await here.running("urgent", COUNT)
    await waits(here, "victim")
    await here.remove(JOBS, "urgent")
    pods = await runs(here, "victim")
    assert len(await here.racks(pods)) == 1
    assert not before & {pod["metadata"]["uid"] for pod in pods}
    await succeed(here, "victim", pods)


async def test_a_malformed_step_ends_with_a_text_that_names_the_field(stage: Stage) -> None:
    here = Site(stage.kube, "workflow-bad")
    await here.open({"b1": {"r1": 1}}, quota=COUNT)
    await workflow(here, "bad", "not a label!")

    async def said() -> list[str] | None:
        found = await status(here, "bad")
        if found.get("phase") not in ("Failed", "Error"):
            return None
        return [node.get("message", "") for node in found["nodes"].values()]

    messages = await eventually("the Workflow ends", said, seconds=90)
    assert any(f"annotations[{REQUIRED_TOPOLOGY}]" in text for text in messages), messages
    assert not (await here.kube.list(PODS, here.name)).items
    assert not (await here.kube.list(WORKLOADS, here.name)).items


async def test_each_pod_of_a_workflow_waits_by_itself(stage: Stage) -> None:
    """Argo's controller makes two pods at once; with quota for one the other waits with a reason, and then runs."""
    here = Site(stage.kube, "workflow")
    await here.open(TREE, quota=1)
    step = {"name": "step", "template": "work", "withSequence": {"count": "2"}}
    container = {**here.template()["spec"]["containers"][0], "command": ["true"]}
    spec = {
        "entrypoint": "main",
        "podMetadata": {"labels": {QUEUE_NAME_LABEL: "lq"}, "annotations": {RUN_FOR: "2s"}},
        "templates": [{"name": "main", "steps": [[step]]}, {"name": "work", "container": container}],
    }
    await here.make(WORKFLOWS, {"metadata": {"name": "steps", "namespace": here.name}, "spec": spec})

    async def waits() -> bool:
        found = [Workload.from_wire(item) for item in (await here.kube.list(WORKLOADS, here.name)).items]
        reserved = [c for w in found for c in w.status.conditions if c.type == QUOTA_RESERVED]
        said = [c.message for c in reserved if c.status == "False"]
        return len(found) == 2 and len(said) == 1 and "insufficient" in said[0]

    await eventually("one of two pods waits for quota", waits, seconds=60)

    async def ended() -> bool:
        pods = (await here.kube.list(PODS, here.name)).items
        return len(pods) == 2 and all(pod["status"].get("phase") == "Succeeded" for pod in pods)

    await eventually("both have run", ended, seconds=60)
