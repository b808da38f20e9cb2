"""The Topology and flavor that `stowage topology init` prints for the nodes of six clouds: a gang is placed by them."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from admission.cli.topology import InitArguments, run
from api.kube.resources import CLUSTER_QUEUES, LOCAL_QUEUES, NAMESPACES, NODES, RESOURCE_FLAVORS, TOPOLOGIES
from api.names import HOSTNAME_LABEL, REQUIRE_TOPOLOGY
from tests.scenarios.site import GPU, GROUP, Site

pytestmark = pytest.mark.asyncio(loop_scope="session")
SHARES_STAGE = True
MakeSite = Callable[[str], Site]
FILES = sorted((Path(__file__).parents[1] / "admission" / "levels" / "clouds").glob("*.yaml"))


async def printed(file: Path) -> list[dict[str, Any]]:
    out, err = io.StringIO(), io.StringIO()
    arguments = InitArguments([file], name=f"init-{file.stem}")
    assert await asyncio.to_thread(run, arguments, Console(file=out), Console(file=err)) == 0
    return [document for document in yaml.safe_load_all(out.getvalue()) if document]


async def open_queue(here: Site, flavor: str) -> None:
    resources = [{"name": "cpu", "nominalQuota": 1000}, {"name": GPU, "nominalQuota": 1000}]
    groups = [{"coveredResources": ["cpu", GPU], "flavors": [{"name": flavor, "resources": resources}]}]
    spec = {"namespaceSelector": {}, "resourceGroups": groups}
    await here.make(CLUSTER_QUEUES, {"metadata": {"name": here.name}, "spec": spec})
    local = {"metadata": {"name": "lq", "namespace": here.name}, "spec": {"clusterQueue": here.name}}
    await here.make(LOCAL_QUEUES, local)


async def add_nodes(here: Site, file: Path) -> dict[str, Mapping[str, str]]:
    """Makes the cloud's nodes, and returns their labels by name."""
    text = await asyncio.to_thread(file.read_text)
    nodes = {node["metadata"]["name"]: node["metadata"]["labels"] for node in yaml.safe_load(text)["items"]}
    for name, labels in nodes.items():
        await here.add_node(name, {**labels, GROUP: here.name})
    return nodes


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
async def test_a_gang_lands_in_one_domain_of_the_lowest_level(site: MakeSite, file: Path) -> None:
    here = site(f"init-{file.stem}")
    await here.make(NAMESPACES, {"metadata": {"name": here.name}})
    nodes = await add_nodes(here, file)
    topology, *others = await printed(file)
    flavor = next(each for each in others if each["spec"].get("topologyName") == topology["metadata"]["name"])
    flavor["metadata"]["name"] = here.name  # two clouds have machines of one name
    flavor["spec"]["nodeLabels"][GROUP] = here.name
    await here.make(TOPOLOGIES, topology)
    await here.make(RESOURCE_FLAVORS, flavor)
    await open_queue(here, here.name)
    *_, level, host = (each["nodeLabel"] for each in topology["spec"]["levels"])
    assert host == HOSTNAME_LABEL
    await here.submit(here.job("gang", 2, {REQUIRE_TOPOLOGY: level}, gpus=here.gpus_per_host))
    pods = await here.running("gang", 2)
    hosts = {pod["spec"]["nodeName"] for pod in pods}
    assert len(hosts) == 2
    assert len({nodes[name][level] for name in hosts}) == 1
    for name in nodes:
        await here.kube.delete(NODES, name)
