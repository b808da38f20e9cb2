"""Devices that pods ask for by ResourceClaimTemplates: placement counts them, so what is let through is bound.

On the real control plane kube-scheduler allocates the devices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from api.kube.resources import CLUSTER_QUEUES, DEVICE_CLASSES, RESOURCE_CLAIM_TEMPLATES, RESOURCE_SLICES
from api.names import REQUIRE_TOPOLOGY
from tests.scenarios.site import GPU, RACK, Site, never

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


@pytest.mark.parametrize("implicit", [False, True], ids=["extendedResourceName", "implicit name"])
async def test_devices_that_are_asked_for_by_the_name_of_a_resource_are_refused_in_words(
    site: MakeSite, implicit: bool
) -> None:
    """A DeviceClass backs the resource, and no node lists it: by a claim the same devices are counted."""
    here = site(f"devices-by-name-{implicit:d}")
    await here.open({"b1": {"r1": 1}}, resourceGroups=[])
    await make_devices(here, [f"{here.name}-b1-r1-0"], 2)
    name = f"deviceclass.resource.kubernetes.io/{here.name}" if implicit else f"{here.name}.example.com/gpu"
    if not implicit:
        changed = {"spec": {"extendedResourceName": name}}
        await here.change(DEVICE_CLASSES, here.name, changed, cluster=True)
    resources = [{"name": each, "nominalQuota": 100} for each in ("cpu", GPU, name)]
    groups = [{"coveredResources": ["cpu", GPU, name], "flavors": [{"name": here.name, "resources": resources}]}]
    await here.change(CLUSTER_QUEUES, here.name, {"spec": {"resourceGroups": groups}}, cluster=True)
    job = here.job("gang", 1, {REQUIRE_TOPOLOGY: RACK})
    [container] = job["spec"]["template"]["spec"]["containers"]
    container["resources"] = {"requests": {"cpu": "1", name: "1"}, "limits": {name: "1"}}
    await here.submit(job)
    await here.waits(
        "gang", "UnsupportedPodTerms", f"{name}: no node offers it, and the devices of DeviceClass {here.name}"
    )


async def _has_pods(here: Site) -> bool:
    return bool(await here.pods("gang"))
