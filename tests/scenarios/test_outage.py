"""What goes on while our processes are down: everything of others; and what waits for us, and then goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from api.errors import ApiError, NotFound
from api.kube.resources import JOBS, NAMESPACES, PODS, WORKLOADS, Resource
from api.meta import is_true
from api.names import FINISHED, QUEUE_NAME_LABEL, REQUIRE_TOPOLOGY, TOPOLOGY_GATE
from tests.scenarios.failures import SHORT_LEASE, down
from tests.scenarios.site import RACK, Site, eventually, never
from tests.scenarios.stage import Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")
ENVIRONMENT = SHORT_LEASE

MakeSite = Callable[[str], Site]

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
TWO_RACKS = {"b1": {"r1": 1, "r2": 1}}


async def pod_runs(here: Site, name: str, namespace: str) -> None:
    """A bare pod is made, and runs."""
    template = here.template()
    await here.make(PODS, {"metadata": {"name": name, "namespace": namespace}, "spec": template["spec"]})

    async def running() -> bool:
        pod = await here.kube.get(PODS, name, namespace)
        return bool(pod["status"].get("phase") == "Running" and pod["spec"].get("nodeName"))

    await eventually(f"pod {namespace}/{name} runs", running)


async def strangers_run(here: Site, stage: Stage) -> None:
    """Bare pods, in kube-system too, and a Job that names no queue."""
    await here.make(NAMESPACES, {"metadata": {"name": "kube-system"}})
    await pod_runs(here, "bare", here.name)
    await pod_runs(here, f"system-{here.name}", "kube-system")
    await here.submit(here.job("unmanaged", 2, queue=None))
    await here.running("unmanaged", 2)
    if stage.name == "real":  # the embedded server has no Deployment controller
        await deployment_runs(here)


async def deployment_runs(here: Site) -> None:
    """A Deployment in a namespace that has not opted in: where one has, its pods are ours to judge."""
    namespace = f"{here.name}-web"
    await here.make(NAMESPACES, {"metadata": {"name": namespace}})
    labels = {"app": "web"}
    spec = {**here.template()["spec"], "restartPolicy": "Always"}
    template = {"metadata": {"labels": labels}, "spec": spec}
    deployment = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    await here.make(DEPLOYMENTS, {"metadata": {"name": "web", "namespace": namespace}, "spec": deployment})

    async def available() -> bool:
        found = await here.kube.get(DEPLOYMENTS, "web", namespace)
        return bool(found["status"].get("availableReplicas") == 2)

    await eventually("the Deployment runs", available)


async def test_without_the_webhook_strangers_go_on_and_queued_jobs_are_refused(stage: Stage, site: MakeSite) -> None:
    here = site("no-webhook")
    await here.open({"b1": {"r1": 4}})
    async with down(stage, "webhook"):
        await strangers_run(here, stage)
        with pytest.raises(ApiError, match=r'failed calling webhook "mjob\.stowage\.dev"'):
            await here.submit(here.job("queued", 2))
        with pytest.raises(NotFound):
            await here.get_job("queued")
    await here.submit(here.job("queued", 2, {REQUIRE_TOPOLOGY: RACK}))
    await here.running("queued", 2)


async def test_without_the_webhook_what_was_accepted_is_admitted_runs_and_ends(stage: Stage, site: MakeSite) -> None:
    here = site("going-on")
    await here.open({"b1": {"r1": 1}})
    await here.submit(here.job("first", 4, {REQUIRE_TOPOLOGY: RACK}))
    await here.running("first", 4)
    await here.submit(here.job("second", 4, {REQUIRE_TOPOLOGY: RACK}))
    await here.waits("second", "TopologyPlacementFailed", "")
    async with down(stage, "webhook"):
        await here.finish("first")
        await here.running("second", 4)
        first = await here.workload_of("first")
        assert first is not None
        assert is_true(first.status.conditions, FINISHED)


async def test_without_the_webhook_a_job_may_be_deleted(stage: Stage, site: MakeSite) -> None:
    here = site("deleted")
    await here.open({"b1": {"r1": 1}})
    await here.submit(here.job("job", 4))
    await here.running("job", 4)
    async with down(stage, "webhook"):
        await here.remove(JOBS, "job")
        await no_workloads(here)


async def no_workloads(here: Site) -> None:
    async def gone() -> bool:
        return not (await here.kube.list(WORKLOADS, here.name)).items

    await eventually("its Workload gone", gone)


async def test_without_controller_and_ungater_jobs_wait_and_go_on_afterwards(stage: Stage, site: MakeSite) -> None:
    here = site("no-controller")
    await here.open({"b1": {"r1": 3}})
    async with down(stage, "controller", "ungater"):
        await strangers_run(here, stage)
        await here.submit(here.job("queued", 2, {REQUIRE_TOPOLOGY: RACK}))
        await never("a queued job starts without the controller", lambda: _moves(here, "queued"))
    await here.running("queued", 2)


async def _moves(here: Site, job: str) -> bool:
    return not (await here.get_job(job))["spec"]["suspend"] or bool(await here.pods(job))


async def test_what_changed_while_the_controller_was_down_counts_afterwards(stage: Stage, site: MakeSite) -> None:
    """Its room: a job ended, a stranger came, a node came, a waiting job was deleted."""
    here = site("changes")
    await here.open(TWO_RACKS)
    await here.submit(here.job("short", 4, {REQUIRE_TOPOLOGY: RACK}))
    await here.submit(here.job("long", 4, {REQUIRE_TOPOLOGY: RACK}))
    for job in ("short", "long"):
        await here.running(job, 4)
    await here.submit(here.job("given-up", 4, {REQUIRE_TOPOLOGY: RACK}))
    await here.submit(here.job("wide", 8, {REQUIRE_TOPOLOGY: RACK}))
    await here.waits("wide", "TopologyPlacementFailed", "")
    async with down(stage, "controller"):
        await here.finish("short")
        await here.kube.delete(JOBS, "given-up", here.name, propagation="Background")
        await eventually("short ended", lambda: _complete(here, "short"))
        taken = {pod["spec"]["nodeName"] for pod in await here.pods("long")}
        (free,) = {f"{here.name}-b1-{rack}-0" for rack in ("r1", "r2")} - taken
        await here.make(PODS, _stranger(here, free))
        await here.add_nodes({"b1": {"r3": 2}})
    await here.running("wide", 8)
    await here.submit(here.job("whole", 4, {REQUIRE_TOPOLOGY: RACK}))
    await here.waits("whole", "TopologyPlacementFailed", "allows to fit only 3 out of 4 pod(s)")


async def _complete(here: Site, job: str) -> bool:
    conditions = (await here.get_job(job)).get("status", {}).get("conditions") or []
    return any(c["type"] == "Complete" and c["status"] == "True" for c in conditions)


def _stranger(here: Site, node: str) -> dict[str, Any]:
    spec = {**here.template()["spec"], "nodeName": node}
    return {"metadata": {"name": "stranger", "namespace": here.name}, "spec": spec}


async def test_unsuspended_by_hand_without_the_controller_its_pods_stay_gated(stage: Stage, site: MakeSite) -> None:
    here = site("by-hand")
    await here.open({"b1": {"r1": 1}})
    async with down(stage, "controller"):
        await here.submit(here.job("job", 2, {REQUIRE_TOPOLOGY: RACK}))
        await here.change(JOBS, "job", {"spec": {"suspend": False}})
        await eventually("its pods are made", lambda: _made(here, "job", 2))
        await never("a pod slips past the gate", lambda: _ungated(here, "job"))
    await here.running("job", 2)


async def _made(here: Site, job: str, count: int) -> bool:
    return len(await here.pods(job)) == count


async def _ungated(here: Site, job: str) -> bool:
    return any({"name": TOPOLOGY_GATE} not in p["spec"].get("schedulingGates", []) for p in await here.pods(job))


async def test_without_the_ungater_admitted_pods_stay_gated_and_go_afterwards(stage: Stage, site: MakeSite) -> None:
    """On two hosts: of a job that goes to one, the pods need no ungater."""
    here = site("no-ungater")
    await here.open({"b1": {"r1": 2}})
    async with down(stage, "ungater"):
        await here.submit(here.job("job", 8, {REQUIRE_TOPOLOGY: RACK}))
        await here.admitted("job")
        await eventually("its pods are made", lambda: _made(here, "job", 8))
        await never("a gate opens by itself", lambda: _ungated(here, "job"))
    await here.running("job", 8)


async def test_without_the_webhook_a_queue_name_cannot_be_added_unjudged(stage: Stage, site: MakeSite) -> None:
    here = site("labelled-later")
    await here.open({"b1": {"r1": 1}})
    await here.submit(here.job("plain", 1, queue=None))
    async with down(stage, "webhook"):
        with pytest.raises(ApiError, match=r'failed calling webhook "vjob\.stowage\.dev"'):
            await here.change(JOBS, "plain", {"metadata": {"labels": {QUEUE_NAME_LABEL: "lq"}}})
