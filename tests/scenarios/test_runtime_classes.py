"""A RuntimeClass says which nodes its pods may use: placement knows, so what is let through is bound."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from api.kube.client import PatchKind
from api.kube.resources import EVENTS, NODES, RUNTIME_CLASSES
from api.names import REQUIRE_TOPOLOGY
from tests.scenarios.site import BLOCK, RACK, Site

pytestmark = pytest.mark.asyncio(loop_scope="session")

SHARES_STAGE = True
MakeSite = Callable[[str], Site]


async def test_pods_go_where_their_runtime_is_and_wait_while_it_does_not_exist(site: MakeSite) -> None:
    here = site("runtime-class")
    await here.open({"b1": {"r1": 3, "r2": 2}})
    for n in range(2):
        body = {"metadata": {"labels": {"runtime": here.name}}}
        await here.kube.patch(NODES, f"{here.name}-b1-r2-{n}", body, kind=PatchKind.MERGE)
    gang, against = (here.job(name, 2, {REQUIRE_TOPOLOGY: BLOCK}, gpus=4) for name in ("gang", "against"))
    for job in (gang, against):
        job["spec"]["template"]["spec"]["runtimeClassName"] = here.name
    against["spec"]["template"]["spec"]["nodeSelector"] = {"runtime": "other"}
    await here.submit(gang)
    await here.waits("gang", "WaitingForObjects", f'RuntimeClass "{here.name}" does not exist')
    scheduling = {"nodeSelector": {"runtime": here.name}}
    await here.make(RUNTIME_CLASSES, {"metadata": {"name": here.name}, "handler": "h", "scheduling": scheduling})
    assert await here.racks(await here.running("gang", 2)) == {"b1/r2": 2}
    await here.submit(against)
    await here.waits("against", "Misconfigured", "requires")
    third = here.job("third", 1, {REQUIRE_TOPOLOGY: RACK}, gpus=4)
    third["spec"]["template"]["spec"]["runtimeClassName"] = here.name
    await here.submit(third)
    await here.waits("third", "TopologyPlacementFailed", "nodeSelector: 3")
    await here.finish("gang")
    assert await here.racks(await here.running("third", 1)) == {"b1/r2": 1}


async def test_nodes_that_only_the_class_tolerates_have_not_failed_for_its_pods(site: MakeSite) -> None:
    """Their gates open and nothing is evicted: the tolerations are in no template."""
    here = site("runtime-taint")
    await here.open({"b1": {"r1": 1}})
    host, taint = f"{here.name}-b1-r1-0", {"key": here.name, "value": "x", "effect": "NoSchedule"}
    await here.kube.patch(NODES, host, {"spec": {"taints": [taint]}}, kind=PatchKind.MERGE)
    scheduling = {"tolerations": [{"key": here.name, "operator": "Exists"}]}
    await here.make(RUNTIME_CLASSES, {"metadata": {"name": here.name}, "handler": "h", "scheduling": scheduling})
    for number in range(3):
        job = here.job(f"gang-{number}", 1, {REQUIRE_TOPOLOGY: RACK}, gpus=1)
        job["spec"]["template"]["spec"]["runtimeClassName"] = here.name
        await here.submit(job)
        await here.running(f"gang-{number}", 1)
    events = [event["reason"] for event in (await here.kube.list(EVENTS, here.name)).items]
    assert not [reason for reason in events if reason.startswith("Evicted")]
