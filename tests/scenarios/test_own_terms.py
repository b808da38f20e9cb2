"""Pods that queue as pods, with terms about each other: they are bound at once where the terms allow, and never refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from api.kube.resources import ELASTIC_QUOTAS, PODS
from api.names import (
    GANG_MINIMUM,
    GANG_NAME,
    KOORDINATOR_MINIMUM,
    KOORDINATOR_NAME,
    POD_GROUP_NAME,
    POD_GROUP_TOTAL_COUNT,
    QUEUE_NAME_LABEL,
)
from tests.scenarios.gangs import a_pod
from tests.scenarios.site import GPU, RACK, Site, eventually
from tests.scenarios.test_affinity_terms import apart, near, never_refused, racks

pytestmark = pytest.mark.asyncio(loop_scope="session")

SHARES_STAGE = True
MakeSite = Callable[[str], Site]
Texts = dict[str, str]

PODS_EACH = 2


def even(template: dict[str, Any], key: str, app: str) -> None:
    """Its pods are spread evenly over the domains of the key."""
    own = {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    template["spec"]["topologySpreadConstraints"] = [{**own, "labelSelector": {"matchLabels": {"app": app}}}]


TERMS = {"apart": (apart, ["r1", "r2"]), "even": (even, ["r1", "r2"]), "near": (near, None)}
"""A term that the pods have about each other, and their racks; None: any rack, but a common one."""


def coscheduling(name: str) -> tuple[Texts, Texts]:
    return {GANG_NAME: name, GANG_MINIMUM: str(PODS_EACH)}, {}


def koordinator(name: str) -> tuple[Texts, Texts]:
    return {}, {KOORDINATOR_NAME: name, KOORDINATOR_MINIMUM: str(PODS_EACH)}


def kueue(name: str) -> tuple[Texts, Texts]:
    return {QUEUE_NAME_LABEL: "lq", POD_GROUP_NAME: name}, {POD_GROUP_TOTAL_COUNT: str(PODS_EACH)}


def queued(name: str) -> tuple[Texts, Texts]:
    return {QUEUE_NAME_LABEL: "lq"}, {}


def in_a_quota(name: str) -> tuple[Texts, Texts]:
    return {}, {}


@pytest.mark.parametrize("dialect", [coscheduling, koordinator, kueue, queued, in_a_quota])
async def test_pods_with_terms_about_each_other_are_bound(
    site: MakeSite, dialect: Callable[[str], tuple[Texts, Texts]]
) -> None:
    here = site(f"own-{dialect.__name__.replace('_', '-')}")
    await here.open({"b1": {"r1": 1, "r2": 1}})
    if dialect is in_a_quota:
        limits = {"min": {GPU: "8"}, "max": {GPU: "8"}}
        await here.make(ELASTIC_QUOTAS, {"metadata": {"name": "quota", "namespace": here.name}, "spec": limits})
        await eventually("the quota counts new pods", lambda: is_counted(here))
    for name, (term, _) in TERMS.items():
        labels, annotations = dialect(name)
        for index in range(PODS_EACH):
            pod = a_pod(here, f"{name}-{index}", {**labels, "app": name}, annotations, gpus=1)
            term(pod, RACK, name)
            await here.make(PODS, pod)
    for name, (_, wanted) in TERMS.items():
        found = racks(await bound(here, name))
        assert found == wanted or (wanted is None and len(set(found)) == 1), name
    await never_refused(here)


async def is_counted(here: Site) -> bool:
    probe = {"apiVersion": PODS.api_version, "kind": PODS.kind, **a_pod(here, "probe", {})}
    made = await here.kube.create(PODS, probe, dry_run=True)
    return QUEUE_NAME_LABEL in (made["metadata"].get("labels") or {})


async def bound(here: Site, app: str) -> list[dict[str, Any]]:
    """Waits until the pods of the application are on nodes; returns them."""

    async def check() -> list[dict[str, Any]] | None:
        pods = (await here.kube.list(PODS, here.name, label_selector=f"app={app}")).items
        return pods if len(pods) == PODS_EACH and all(pod["spec"].get("nodeName") for pod in pods) else None

    return await eventually(f"the pods of {app} are bound", check)


async def test_two_roles_that_only_a_label_tells_apart_keep_off_each_other(site: MakeSite) -> None:
    """The server and its workers ask for the same, and none of them wants the server beside it."""
    here = site("own-roles")
    await here.open({"b1": {"r1": 1, "r2": 1}})
    for name, role in (("train-ps", "server"), ("train-w0", "worker"), ("train-w1", "worker")):
        pod = a_pod(here, name, {GANG_NAME: "train", GANG_MINIMUM: "3", "app": "train", "role": role}, gpus=1)
        term = {"topologyKey": RACK, "labelSelector": {"matchLabels": {"role": "server"}}}
        pod["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        await here.make(PODS, pod)

    async def apart_from_the_server() -> bool:
        pods = (await here.kube.list(PODS, here.name)).items
        nodes = {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in pods}
        return all(nodes.values()) and nodes["train-ps"] not in (nodes["train-w0"], nodes["train-w1"])

    await eventually("the server has a rack of its own", apart_from_the_server)
    await never_refused(here)
