"""Devices that pods ask for by ResourceClaimTemplates: placement counts them, so what is let through is bound.

On the real control plane kube-scheduler allocates the devices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from api.kube.resources import DEVICE_CLASSES, RESOURCE_CLAIM_TEMPLATES, RESOURCE_SLICES
from api.names import REQUIRE_TOPOLOGY
from tests.scenarios.site import RACK, Site, never

pytestmark = pytest.mark.asyncio(loop_scope="session")

SHARES_STAGE = True
MakeSite = Callable[[str], Site]


def with_devices(job: dict[str, Any], template: str = "one") -> dict[str, Any]:
    spec = job["spec"]["template"]["spec"]
    spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": template}]
    for container in spec["containers"]:
        container["resources"]["claims"] = [{"name": "gpu"}]
    return job


async def make_devices(here: Site, nodes: list[str], number: int) -> None:
    """A class of this site's own driver, and so many devices on each node."""
    driver = f"{here.name}.example.com"
    selector = {"cel": {"expression": f'device.driver == "{driver}"'}}
    await here.make(DEVICE_CLASSES, {"metadata": {"name": here.name}, "spec": {"selectors": [selector]}})
    for node in nodes:
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": f"gpu-{n}", "attributes": {"index": {"int": n}}} for n in range(number)]
        spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": devices}
        await here.make(RESOURCE_SLICES, {"metadata": {"name": node}, "spec": spec})


async def make_template(here: Site, name: str, **request: Any) -> None:
    exactly = {"deviceClassName": here.name, **request}
    spec = {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}
    await here.make(RESOURCE_CLAIM_TEMPLATES, {"metadata": {"name": name, "namespace": here.name}, "spec": spec})


async def test_each_pod_gets_a_device_and_a_gang_too_many_waits(site: MakeSite) -> None:
    here = site("devices")
    await here.open({"b1": {"r1": 2, "r2": 2}})
    nodes = [f"{here.name}-b1-{rack}-{n}" for rack in ("r1", "r2") for n in range(2)]
    await here.submit(with_devices(here.job("gang", 2, {REQUIRE_TOPOLOGY: RACK}, gpus=1)))
    await here.waits("gang", "WaitingForObjects", "waits for ResourceClaimTemplate one to be created")
    await make_devices(here, nodes[1:], 1)
    await make_template(here, "one", count=1)
    pods = await here.running("gang", 2)
    assert {pod["spec"]["nodeName"] for pod in pods} == set(nodes[2:])
    await here.submit(with_devices(here.job("second", 2, {REQUIRE_TOPOLOGY: RACK}, gpus=1)))
    await here.waits("second", "TopologyPlacementFailed", f'resource "devices of {here.name}"')
    await here.finish("gang")
    await here.running("second", 2)


async def test_what_cannot_be_counted_holds_the_job_and_is_named(site: MakeSite) -> None:
    here = site("devices-not-counted")
    await here.open({"b1": {"r1": 1}})
    await make_devices(here, [], 0)
    await make_template(here, "all", allocationMode="All")
    await here.submit(with_devices(here.job("gang", 1), "all"))
    text = "ResourceClaimTemplate all: request gpu: only whole devices by number are counted"
    await here.waits("gang", "UnsupportedPodTerms", text)
    await never("a pod starts", lambda: _has_pods(here))


async def _has_pods(here: Site) -> bool:
    return bool(await here.pods("gang"))
