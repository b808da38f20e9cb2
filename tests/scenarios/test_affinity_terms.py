"""Pods whose terms decide which pods may be near them: what is let through is bound whole, what cannot be bound waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from api.kube.client import PatchKind
from api.kube.resources import EVENTS, NODES, PODS
from api.names import HOSTNAME_LABEL, REQUIRE_TOPOLOGY
from tests.scenarios.site import BLOCK, RACK, Site, eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")

SHARES_STAGE = True
MakeSite = Callable[[str], Site]


def apart(template: dict[str, Any], key: str, app: str) -> None:
    """Its pods go where no pod with this label is in the same domain of the key."""
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    template["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def near(template: dict[str, Any], key: str, app: str) -> None:
    """Its pods go where a pod with this label is in the same domain of the key."""
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    template["spec"]["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def labelled(template: dict[str, Any], app: str) -> None:
    template.setdefault("metadata", {}).setdefault("labels", {})["app"] = app


async def foreign(here: Site, name: str, template: dict[str, Any], node: str) -> None:
    """A pod of nobody's, bound to the node."""
    spec = {**template["spec"], "nodeSelector": {HOSTNAME_LABEL: node}}
    labels = template.get("metadata", {}).get("labels", {})
    await here.make(PODS, {"metadata": {"name": name, "namespace": here.name, "labels": labels}, "spec": spec})

    async def bound() -> bool:
        return bool((await here.kube.get(PODS, name, here.name))["spec"].get("nodeName"))

    await eventually("the foreign pod is bound", bound)


def racks(pods: list[dict[str, Any]]) -> list[str]:
    """The racks of the pods, by the names of their nodes (SITE-BLOCK-RACK-NUMBER)."""
    return sorted(pod["spec"]["nodeName"].split("-")[-2] for pod in pods)


async def never_refused(here: Site) -> None:
    """The scheduler has refused no pod of the namespace."""
    page = await here.kube.list(EVENTS, here.name)
    assert [event["message"] for event in page.items if event["reason"] == "FailedScheduling"] == []


async def test_a_gang_whose_pods_keep_each_other_off_their_racks(site: MakeSite) -> None:
    """By capacity alone both pods would go to one rack, and one of them would never be bound there."""
    here = site("terms-apart")
    await here.open({"b1": {"r1": 2, "r2": 2}})
    gang, second = (here.job(name, 2, {REQUIRE_TOPOLOGY: BLOCK}) for name in ("gang", "second"))
    for job in (gang, second):
        labelled(job["spec"]["template"], "alone")
        apart(job["spec"]["template"], RACK, "alone")
    await here.submit(gang)
    assert racks(await here.running("gang", 2)) == ["r1", "r2"]
    await here.submit(second)
    await here.waits("second", "TopologyPlacementFailed", f"pod anti-affinity {RACK}: 4")
    three = here.job("three", 3, {REQUIRE_TOPOLOGY: BLOCK})
    labelled(three["spec"]["template"], "third")
    apart(three["spec"]["template"], RACK, "third")
    await here.submit(three)
    await here.waits("three", "TopologyPlacementFailed", f"one pod of the gang for each {RACK}")
    await here.finish("gang")
    assert racks(await here.running("second", 2)) == ["r1", "r2"]
    await never_refused(here)


async def test_a_pod_from_elsewhere_keeps_its_rack(site: MakeSite) -> None:
    """Its own term selects the gang's pods, which have no term at all."""
    here = site("terms-guard")
    await here.open({"b1": {"r1": 2, "r2": 2}})
    template = here.template(1)
    apart(template, RACK, "batch")
    await foreign(here, "guard", template, f"{here.name}-b1-r1-0")
    gang, third = (here.job(name, 2, {REQUIRE_TOPOLOGY: RACK}) for name in ("gang", "third"))
    for job in (gang, third):
        labelled(job["spec"]["template"], "batch")
    await here.submit(gang)
    assert racks(await here.running("gang", 2)) == ["r2", "r2"]
    await here.submit(third)
    await here.running("third", 2)
    await here.kube.delete(PODS, "guard", here.name)
    await never_refused(here)


async def test_a_gang_keeps_off_the_rack_of_a_pod_that_it_names(site: MakeSite) -> None:
    here = site("terms-named")
    await here.open({"b1": {"r1": 2, "r2": 2}})
    template = here.template(1)
    labelled(template, "noisy")
    await foreign(here, "noisy", template, f"{here.name}-b1-r2-1")
    gang, second = (here.job(name, 2, {REQUIRE_TOPOLOGY: RACK}) for name in ("gang", "second"))
    for job, key in ((gang, RACK), (second, BLOCK)):
        apart(job["spec"]["template"], key, "noisy")
    await here.submit(gang)
    assert racks(await here.running("gang", 2)) == ["r1", "r1"]
    await here.submit(second)
    await here.waits("second", "TopologyPlacementFailed", f"pod anti-affinity {BLOCK}: 4")
    await here.kube.delete(PODS, "noisy", here.name)
    await here.running("second", 2)
    await never_refused(here)


async def test_a_gang_follows_a_pod_that_it_wants_to_be_near(site: MakeSite) -> None:
    here = site("terms-near")
    await here.open({"b1": {"r1": 2, "r2": 2}})
    gang = here.job("gang", 2, {REQUIRE_TOPOLOGY: BLOCK})
    near(gang["spec"]["template"], RACK, "cache")
    await here.submit(gang)
    await here.waits("gang", "TopologyPlacementFailed", f"pod affinity {RACK}: 4")
    template = here.template(1)
    labelled(template, "cache")
    await foreign(here, "cache", template, f"{here.name}-b1-r2-0")
    assert racks(await here.running("gang", 2)) == ["r2", "r2"]
    await here.kube.delete(PODS, "cache", here.name)
    await never_refused(here)


async def test_pods_that_want_each_other_share_a_rack_and_the_next_gang_joins_them(site: MakeSite) -> None:
    """Five pods are more than a host holds, and by capacity alone the second gang would go to the free rack."""
    here = site("terms-together")
    await here.open({"b1": {"r1": 2, "r2": 2}})
    sizes = {"gang": here.gpus_per_host + 1, "second": 2, "third": 2 * here.gpus_per_host}
    jobs = {name: here.job(name, pods, {REQUIRE_TOPOLOGY: BLOCK}) for name, pods in sizes.items()}
    for job in jobs.values():
        labelled(job["spec"]["template"], "club")
        near(job["spec"]["template"], RACK, "club")
    await here.submit(jobs["gang"])
    where = set(racks(await here.running("gang", sizes["gang"])))
    assert len(where) == 1
    await here.submit(jobs["second"])
    assert set(racks(await here.running("second", 2))) == where
    await here.submit(jobs["third"])
    await here.waits("third", "TopologyPlacementFailed", f"pod affinity {RACK}: 2")
    await here.finish("gang")
    await here.finish("second")
    assert len(set(racks(await here.running("third", sizes["third"])))) == 1
    await never_refused(here)


async def test_a_gang_with_a_spread_constraint_goes_where_the_key_is(site: MakeSite) -> None:
    """The scheduler refuses a node without the constraint's key, and binds each pod on its pinned host."""
    here = site("terms-spread")
    await here.open({"b1": {"r1": 2, "r2": 2}})
    gang, second = (here.job(name, 4, {REQUIRE_TOPOLOGY: RACK}) for name in ("gang", "second"))
    for job, key in ((gang, "example.com/zone"), (second, RACK)):
        spread = {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
        selector = {"labelSelector": {"matchLabels": {"app": "even"}}}
        job["spec"]["template"]["spec"]["topologySpreadConstraints"] = [{**spread, **selector}]
        labelled(job["spec"]["template"], "even")
    await here.submit(gang)
    await here.waits("gang", "TopologyPlacementFailed", "affinity: 4")
    await here.submit(second)
    assert len(set(racks(await here.running("second", 4)))) == 1
    zone = {"metadata": {"labels": {"example.com/zone": "a"}}}
    for number in range(2):
        await here.kube.patch(NODES, f"{here.name}-b1-r2-{number}", zone, kind=PatchKind.MERGE)
    assert racks(await here.running("gang", 4)) == ["r2"] * 4
    await never_refused(here)
