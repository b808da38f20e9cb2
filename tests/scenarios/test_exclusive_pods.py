"""Pods of which a node takes only one: a host port, or required anti-affinity to their like. What is let through is bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from api.kube.resources import PODS
from api.names import HOSTNAME_LABEL, REQUIRE_TOPOLOGY
from tests.scenarios.site import BLOCK, RACK, Site, eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")

SHARES_STAGE = True
MakeSite = Callable[[str], Site]

TERM = {"topologyKey": HOSTNAME_LABEL, "labelSelector": {"matchLabels": {"app": "alone"}}}
ALONE = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}}


def with_port(template: dict[str, Any]) -> None:
    for container in template["spec"]["containers"]:
        container["ports"] = [{"containerPort": 8080, "hostPort": 8080}]


def with_anti_affinity(template: dict[str, Any]) -> None:
    template.setdefault("metadata", {}).setdefault("labels", {})["app"] = "alone"
    template["spec"].update(ALONE)


def with_disk(template: dict[str, Any]) -> None:
    """All pods write to one disk that they name themselves."""
    template["spec"]["volumes"] = [{"name": "data", "gcePersistentDisk": {"pdName": "shared", "fsType": "ext4"}}]


FORMS = [
    pytest.param(with_port, id="host-port"),
    pytest.param(with_disk, id="disk"),
    pytest.param(with_anti_affinity, id="anti-affinity"),
]


def nodes_of(pods: list[dict[str, Any]]) -> set[str]:
    return {pod["spec"]["nodeName"] for pod in pods}


@pytest.mark.parametrize("form", FORMS)
async def test_each_pod_of_a_gang_gets_a_node_and_a_gang_too_many_waits(
    site: MakeSite, form: Callable[[dict[str, Any]], None]
) -> None:
    """By capacity alone both pods would go to one node, and one of them would never be bound there."""
    here = site(f"exclusive-{form.__name__.removeprefix('with_').replace('_', '-')}")
    await here.open({"b1": {"r1": 2, "r2": 2}})
    gang, second, third = (here.job(name, 2, {REQUIRE_TOPOLOGY: RACK}, gpus=1) for name in ("gang", "second", "third"))
    for job in (gang, second, third):
        form(job["spec"]["template"])
    await here.submit(gang)
    pods = await here.running("gang", 2)
    assert len(nodes_of(pods)) == 2
    await here.submit(second)
    others = await here.running("second", 2)
    assert len(nodes_of([*pods, *others])) == 4
    await here.submit(third)
    await here.waits("third", "TopologyPlacementFailed", "excluded")
    await here.finish("gang")
    await here.running("third", 2)


@pytest.mark.parametrize("form", FORMS)
async def test_a_pod_from_elsewhere_keeps_its_node(site: MakeSite, form: Callable[[dict[str, Any]], None]) -> None:
    here = site(f"exclusive-foreign-{form.__name__.removeprefix('with_').replace('_', '-')}")
    await here.open({"b1": {"r1": 3}})
    template = here.template(1)
    form(template)
    taken = f"{here.name}-b1-r1-0"
    spec = {**template["spec"], "nodeSelector": {HOSTNAME_LABEL: taken}}
    labels = template.get("metadata", {}).get("labels", {})
    await here.make(PODS, {"metadata": {"name": "foreign", "namespace": here.name, "labels": labels}, "spec": spec})
    await eventually("the foreign pod is bound", lambda: bound(here, "foreign"))
    job = here.job("gang", 2, {REQUIRE_TOPOLOGY: BLOCK}, gpus=1)
    form(job["spec"]["template"])
    await here.submit(job)
    assert taken not in nodes_of(await here.running("gang", 2))


async def test_one_port_at_two_addresses_of_a_host(site: MakeSite) -> None:
    """As in kube-scheduler's filter NodePorts, a pod takes a port at its address, or at every address."""
    here = site("exclusive-addresses")
    await here.open({"b1": {"r1": 1}})
    for name, address in (("first", "10.0.0.1"), ("second", "10.0.0.2"), ("again", "10.0.0.1"), ("every", "")):
        job = here.job(name, 1, {REQUIRE_TOPOLOGY: RACK}, gpus=1)
        with_port(job["spec"]["template"])
        job["spec"]["template"]["spec"]["containers"][0]["ports"][0]["hostIP"] = address
        await here.submit(job)
        if name in ("first", "second"):
            await here.running(name, 1)
    await here.waits("again", "TopologyPlacementFailed", "host address TCP/8080 10.0.0.1")
    await here.waits("every", "TopologyPlacementFailed", "host port TCP/8080")
    await here.finish("first")
    await here.running("again", 1)


async def bound(here: Site, pod: str) -> bool:
    return bool((await here.kube.get(PODS, pod, here.name))["spec"].get("nodeName"))
