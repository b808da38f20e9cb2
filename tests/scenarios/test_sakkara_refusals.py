"""Sakkara groups that are malformed: what is refused, and what is reported on the objects."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest

from api.errors import ApiError, Forbidden
from api.kube.resources import (
    CONFIG_MAPS,
    NAMESPACES,
    PODS,
)
from api.meta import find_condition
from api.names import (
    GANG_LABEL,
    HOSTNAME_LABEL,
    POD_GROUP_NAME,
    QUOTA_RESERVED,
    SAKKARA_GROUP_NAME,
)
from api.sakkara import label_of_level
from hack.controlplane.options import ClusterOptions
from tests.scenarios.sakkara import MakeSite, a_group, a_pod, create, site_of, stay, told, tree
from tests.scenarios.site import RACK, Site, eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")
CONTROL_PLANE = ClusterOptions(jobset=True)
A = {"rack": {"type": "spread", "partitions": 2}, "node": {"type": "pack"}}


async def refused(here: Site, resource: Any, obj: Mapping[str, Any]) -> str:
    """What the API server answers to it."""
    body = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
    with pytest.raises(Forbidden) as answer:
        await here.kube.create(resource, body)
    return str(answer.value)


SIZE = "must be a whole number from 1 to 2147483647"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param({"size": "many"}, f'data.size: Invalid value: "many": {SIZE}', id="size"),
        pytest.param(
            {"priority": "1.5"},
            'data.priority: Invalid value: "1.5": must be a whole number from -2147483648 to 2147483647',
            id="priority",
        ),
        pytest.param(
            {"name": "Group A"},
            'data.name: Invalid value: "Group A": must be a DNS subdomain of at most 253 characters',
            id="name",
        ),
        pytest.param(
            {"constraints": '{"rack": {"type": "spread", "partitions": 3}}'},
            "data.constraints[rack][partitions]: Invalid value: 3: contradicts size 2: must not be greater",
            id="partitions-above-size",
        ),
        pytest.param(
            {"constraints": '{"node": {"min": 4, "max": 2}}'},
            "data.constraints[node][min]: Invalid value: 4: contradicts max 2: must not be greater",
            id="min-above-max",
        ),
        pytest.param(
            {"constraints": '{"node": {"max": 3, "factor": 4}}'},
            "data.constraints[node][factor]: Invalid value: 4: contradicts max 3: no count in that range is a multiple",
            id="factor",
        ),
        pytest.param(
            {"constraints": '{"node": {"type": "stack"}}'},
            'data.constraints[node][type]: Invalid value: "stack": must be one of pack, spread',
            id="type",
        ),
    ],
)
async def test_a_malformed_group_is_refused_with_what_is_wrong(
    site: MakeSite, data: dict[str, str], message: str
) -> None:
    here = site("malformed")
    await here.make(NAMESPACES, {"metadata": {"name": here.name}})
    bad = a_group(here, "bad", 2)
    bad["data"] |= data
    assert message in await refused(here, CONFIG_MAPS, bad)
    good = a_group(here, "good", 2)
    await here.make(CONFIG_MAPS, good)
    with pytest.raises(ApiError, match=r"data\.size"):
        await here.change(CONFIG_MAPS, "good", {"data": {"size": "0"}})
    await here.change(CONFIG_MAPS, "good", {"data": {"status": "Pending"}})
    await here.remove(CONFIG_MAPS, "good")


async def test_a_pod_that_differs_is_refused_with_the_name_of_another(site: MakeSite) -> None:
    here = site("differs")
    await site_of(here, {"r0": [4]})
    await create(here, "g", 1)
    resources = "must ask for the same resources as pod g-0 of gang g: cpu 1, nvidia.com/gpu 1"
    demands = "must have the node selector, affinity, tolerations and priority of pod g-0 of gang g"

    async def answer(pod: dict[str, Any]) -> str:
        """Until the webhook has seen the first pod."""
        tries = itertools.count()

        async def told() -> str | None:
            pod["metadata"]["name"] = f"h-{next(tries)}"
            try:
                await here.kube.create(PODS, {"apiVersion": "v1", "kind": "Pod", **pod})
            except Forbidden as bad:
                return str(bad)
            return None

        return await eventually("the pod is refused", told)

    said = await answer(a_pod(here, "h-1", "g", gpus=2))
    assert f'spec.containers: Invalid value: "cpu 1, nvidia.com/gpu 2": {resources}' in said
    elsewhere = a_pod(here, "h-2", "g")
    elsewhere["spec"]["nodeSelector"] = {RACK: "r0"}
    assert f"spec: Invalid value: {demands}" in await answer(elsewhere)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        pytest.param(
            {SAKKARA_GROUP_NAME: "a", GANG_LABEL: "b"},
            f'metadata.labels[{GANG_LABEL}]: Invalid value: "b": must be the same as {SAKKARA_GROUP_NAME}, a',
            id="two-groups",
        ),
        pytest.param(
            {SAKKARA_GROUP_NAME: "a", POD_GROUP_NAME: "b"},
            f'metadata.labels[{SAKKARA_GROUP_NAME}]: Invalid value: "a": must be the name in {POD_GROUP_NAME}, b',
            id="another-dialect",
        ),
        pytest.param(
            {SAKKARA_GROUP_NAME: "Group_A"},
            f'metadata.labels[{SAKKARA_GROUP_NAME}]: Invalid value: "Group_A": must be a DNS subdomain',
            id="no-name",
        ),
    ],
)
async def test_a_pod_that_names_its_group_badly_is_refused(
    site: MakeSite, labels: dict[str, str], message: str
) -> None:
    here = site("names")
    await here.make(NAMESPACES, {"metadata": {"name": here.name}})
    pod = a_pod(here, "p", "a")
    pod["metadata"]["labels"] = labels
    assert message in await refused(here, PODS, pod)


async def test_a_level_that_the_tree_lacks_is_reported(site: MakeSite) -> None:
    here = site("level")
    async with tree(here, {"r0": [4]}):
        await here.make(CONFIG_MAPS, a_group(here, "g", 2, {"row": {"type": "spread", "hard": True}}))
        await create(here, "g", 2)
        levels = f"{label_of_level(here.name, 'rack')}, {HOSTNAME_LABEL}"
        await here.waits("g-0", "TopologyPlacementFailed", f"placement constraint: no level row: there are {levels}")
        await stay(here, "g-", Gated=2)


async def test_a_soft_constraint_of_a_level_that_the_tree_lacks_is_reported_and_ignored(site: MakeSite) -> None:
    here = site("soft-level")
    async with tree(here, {"r0": [4]}):
        await here.make(CONFIG_MAPS, a_group(here, "g", 2, {"row": {"type": "spread"}, "node": {"type": "pack"}}))
        await create(here, "g", 2)
        workload = await here.admitted("g-0")
        levels = f"{label_of_level(here.name, 'rack')}, {HOSTNAME_LABEL}"
        reserved = find_condition(workload.status.conditions, QUOTA_RESERVED)
        assert reserved is not None
        assert f"the placement constraint is ignored: no level row: there are {levels}" in reserved.message


async def test_a_second_config_map_of_one_group_is_reported(site: MakeSite) -> None:
    here = site("second")
    await here.make(NAMESPACES, {"metadata": {"name": here.name}})
    for name, size in (("one", 2), ("two", 3)):
        made = a_group(here, name, size)
        made["data"]["name"] = "g"
        await here.make(CONFIG_MAPS, made)
    said = "data.name: 'g': ConfigMap one describes the group of this name"
    await told(here, said, kind="ConfigMap", reason="InvalidGroup")


async def test_unlabelled_config_maps_are_ignored(site: MakeSite) -> None:
    here = site("others")
    await here.make(NAMESPACES, {"metadata": {"name": here.name}})
    await here.make(CONFIG_MAPS, {"metadata": {"name": "any", "namespace": here.name}, "data": {"size": "many"}})
    await here.remove(CONFIG_MAPS, "any")
