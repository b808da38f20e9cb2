"""Spare hosts of a gang and of a flavor: no other workload gets them, and pods go there when a node dies."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from rich.console import Console

from admission.cli import explain as command
from admission.world.rules import WorldRules
from api.errors import ApiError
from api.kube.client import PatchKind
from api.kube.resources import CLUSTER_QUEUES, EVENTS, JOBS, RESOURCE_FLAVORS
from api.meta import Condition, find_condition
from api.names import HOSTS_HELD, REQUIRE_TOPOLOGY
from api.names import SPARE_HOSTS as ASKED
from api.names import SPARE_HOSTS_QUEUE as ASKED_QUEUE
from tests.scenarios.site import BLOCK, GPU, RACK, Site, eventually
from tests.scenarios.stage import Stage
from tests.scenarios.test_explain import explain
from tests.scenarios.test_node_failure import assigned, node_dies, patient

pytestmark = pytest.mark.asyncio(loop_scope="session")

SHARES_STAGE = True
ENVIRONMENT = {"STOWAGE_CONTROLLER__SNAPSHOTS": "true"}
MakeSite = Callable[[str], Site]
SPARED = {REQUIRE_TOPOLOGY: RACK, ASKED: "1"}


async def told(here: Site, job: str, status: str) -> Condition:
    """What the Workload says of its spare hosts, once it has that status."""

    async def said() -> Condition | None:
        workload = await here.workload_of(job)
        found = find_condition(workload.status.conditions, HOSTS_HELD) if workload else None
        return found if found is not None and found.status == status else None

    return await eventually(f"{job} says {status} of its spare hosts", said)


async def test_pods_of_a_dead_node_go_to_the_spare_host_that_nobody_else_got(site: MakeSite) -> None:
    here = site("spared")
    await here.open({"b1": {"r1": 3}})
    await here.submit(patient(here.job("gang", 2, SPARED, gpus=4)))
    before = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in await here.running("gang", 2)}
    [spare] = {f"spared-b1-r1-{n}" for n in range(3)} - set(before.values())
    assert (await told(here, "gang", "True")).message == f"main: {spare}"
    await here.submit(here.job("other", 1, {REQUIRE_TOPOLOGY: RACK}))
    await here.waits("other", "TopologyPlacementFailed", "doesn't allow to fit any of 1 pod(s)")

    assert f"spare hosts, free of pods: main: {spare}" in await explain(here, "gang", as_json=False)
    gang, found = await here.workload_of("gang"), json.loads(await explain(here, "other"))
    assert gang is not None
    changes = [remedy["changes"] for remedy in found["remedies"]]
    assert [{"kind": "Finish", "workloads": [gang.key]}] in changes, "the spare host is free when the gang has ended"

    dead, kept = sorted(before.values())
    await node_dies(here, dead)
    after = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in await here.running("gang", 2)}
    assert sorted(after.values()) == sorted([kept, spare])
    assert {name for name, node in before.items() if node == kept} <= after.keys(), "the other pod was not touched"
    workload = await here.workload_of("gang")
    assert workload is not None
    assert assigned(workload) == {kept: 1, spare: 1}
    assert "1 of 1 spare host(s) not held" in (await told(here, "gang", "False")).message

    await here.add_nodes({"b1": {"r1": 4}})
    await told(here, "gang", "True")
    await here.remove(JOBS, "gang")
    await here.running("other", 1)


async def test_quota_counts_the_spare_host(site: MakeSite) -> None:
    here = site("spare-quota")
    await here.open({"b1": {"r1": 4}}, quota=11)
    await here.submit(here.job("gang", 2, SPARED, gpus=4))
    await here.waits("gang", "WaitingForQuota", "1 spare host(s)")
    await here.submit(here.job("plain", 2, {REQUIRE_TOPOLOGY: RACK}, gpus=4))
    await here.running("plain", 2)


async def test_the_status_of_the_queue_counts_the_spare_host(site: MakeSite) -> None:
    here = site("spare-usage")
    await here.open({"b1": {"r1": 3}}, quota=12)
    await here.submit(here.job("gang", 2, SPARED, gpus=4))
    await here.running("gang", 2)

    async def counted() -> bool:
        status = (await here.kube.get(CLUSTER_QUEUES, here.name))["status"]
        used = {one["name"]: one["total"] for one in status["flavorsUsage"][0]["resources"]}
        return used == {"cpu": "3", GPU: "12"}

    await eventually("the queue shows it", counted)


async def test_explanations_name_the_spare_hosts_that_the_controller_holds(
    site: MakeSite, stage: Stage, tmp_path: Path
) -> None:
    """Held while another host was in use, which is idle now and comes first by name."""
    here = site("spare-snapshot")
    await here.open({"b1": {"r1": 3}})
    await here.submit(here.job("early", 1, {REQUIRE_TOPOLOGY: RACK}, gpus=4))
    [first] = [pod["spec"]["nodeName"] for pod in await here.running("early", 1)]
    await here.submit(patient(here.job("gang", 1, SPARED, gpus=4)))
    [used] = [pod["spec"]["nodeName"] for pod in await here.running("gang", 1)]
    [spare] = {f"{here.name}-b1-r1-{n}" for n in range(3)} - {first, used}
    assert first < spare, "else the test shows nothing"
    assert (await told(here, "gang", "True")).message == f"main: {spare}"
    [early, gang] = [await here.workload_of(job) for job in ("early", "gang")]
    assert early is not None
    assert gang is not None
    await here.remove(JOBS, "early")
    page = f"http://127.0.0.1:{stage.processes.children['controller'].health_port}/snapshot"
    saved = tmp_path / "now.json"

    async def without_early() -> bool:
        async with aiohttp.ClientSession() as session, session.get(page) as answer:
            saved.write_bytes(await answer.read())
        return early.key not in [one["key"] for one in json.loads(saved.read_bytes())["workloads"]]

    await eventually("the first job is gone", without_early)
    out = Console(file=io.StringIO(), width=160)
    asked = command.ExplainArguments(gang.key, snapshot=saved)
    assert command.run(asked, WorldRules(), out) == 0
    assert f"spare hosts, free of pods: main: {spare}" in await explain(here, "gang", as_json=False), "and without it"
    assert f"spare hosts, free of pods: main: {spare}" in out.file.getvalue()  # type: ignore[attr-defined]  # it is a StringIO


SPARES = {ASKED: f"1 of 4 hosts of each {RACK}"}


async def test_the_spare_host_of_a_rack_takes_the_pods_of_any_workload_whose_host_dies(site: MakeSite) -> None:
    """The flavor keeps one host of the rack: a new gang does not get it, and it is charged to a queue of its own."""
    here = site("flavor-spares")
    await here.open({"b1": {"r1": 4}})
    resources = [{"name": "cpu", "nominalQuota": 32}, {"name": GPU, "nominalQuota": 4}]
    groups = [{"coveredResources": ["cpu", GPU], "flavors": [{"name": here.name, "resources": resources}]}]
    queue = f"{here.name}-reserve"
    await here.make(CLUSTER_QUEUES, {"metadata": {"name": queue}, "spec": {"resourceGroups": groups}})
    annotations = SPARES | {ASKED_QUEUE: queue}
    await here.kube.patch(RESOURCE_FLAVORS, here.name, {"metadata": {"annotations": annotations}}, kind=PatchKind.MERGE)

    async def used() -> bool:
        status = (await here.kube.get(CLUSTER_QUEUES, queue)).get("status") or {}
        usage = {
            one["name"]: one["total"] for flavor in status.get("flavorsUsage") or () for one in flavor["resources"]
        }
        return usage == {"cpu": "32", GPU: "4"}

    await eventually("the reserve's queue shows the spare host", used)
    await here.submit(here.job("whole", 4, {REQUIRE_TOPOLOGY: RACK}, gpus=4))
    # Four idle hosts, four pods; only the spare host tells why the job waits.
    await here.waits("whole", "TopologyPlacementFailed", f"Spare hosts held for flavor {here.name}: 1")
    explained = json.loads(await explain(here, "whole"))
    takers = {(taker["kind"], taker["name"]) for takers in _all(explained, "takers") for taker in takers}
    assert ("SpareHosts", here.name) in takers
    await here.remove(JOBS, "whole")
    await here.submit(patient(here.job("gang", 3, {REQUIRE_TOPOLOGY: RACK}, gpus=4)))
    before = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in await here.running("gang", 3)}
    [spare] = {f"{here.name}-b1-r1-{n}" for n in range(4)} - set(before.values())
    dead, *kept = sorted(before.values())
    await node_dies(here, dead)
    after = {pod["spec"]["nodeName"] for pod in await here.running("gang", 3)}
    assert after == {spare, *kept}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("1 of 4", "must be `N of M hosts of each LEVEL`", id="no level"),
        pytest.param(f"4 of 4 hosts of each {RACK}", "must be `N of M hosts of each LEVEL`", id="all of them"),
        pytest.param(f"0 of 4 hosts of each {RACK}", "must be `N of M hosts of each LEVEL`", id="none"),
        pytest.param(f"1 of 99999 hosts of each {RACK}", "must be `N of M hosts of each LEVEL`", id="of too many"),
        pytest.param("1 of 4 hosts of each row", "LEVEL must be above kubernetes.io/hostname", id="another level"),
        pytest.param("9" * 5000, "must be `N of M hosts of each LEVEL`", id="too long"),
    ],
)
async def test_an_unreadable_rule_for_spare_hosts_is_refused(site: MakeSite, text: str, message: str) -> None:
    here = site("no-rule")
    levels = {"levels": [BLOCK, RACK, "kubernetes.io/hostname"]}
    flavor = {
        "metadata": {"name": "no-rule", "annotations": {ASKED: text}},
        "spec": {"nodeLabels": {"pool": "no-rule"}, "topology": levels},
    }
    with pytest.raises(ApiError, match=re.escape(message)):
        await here.make(RESOURCE_FLAVORS, flavor)


async def test_a_level_that_the_topology_lacks_is_reported_on_the_flavor(site: MakeSite) -> None:
    """The webhook cannot know the levels of another object. The flavor stays usable, without spare hosts."""
    here = site("other-level")
    await here.open({"b1": {"r1": 2}})
    rule = {"metadata": {"annotations": {ASKED: "1 of 2 hosts of each row"}}}
    await here.kube.patch(RESOURCE_FLAVORS, here.name, rule, kind=PatchKind.MERGE)

    async def said() -> bool:
        events = (await here.kube.list(EVENTS)).items
        about = [event for event in events if event["involvedObject"].get("name") == here.name]
        return any(
            event["reason"] == "InvalidSpareHosts" and "LEVEL must be above" in event["message"] for event in about
        )

    await eventually("an event on the flavor", said)
    await here.submit(here.job("both", 2, {REQUIRE_TOPOLOGY: RACK}, gpus=4))
    await here.running("both", 2)


def _all(value: object, key: str) -> Iterator[Any]:
    """Yields what stands under the key, at any depth."""
    if isinstance(value, dict):
        yield from ([value[key]] if key in value else ())
        value = list(value.values())
    for one in value if isinstance(value, list) else ():
        yield from _all(one, key)
