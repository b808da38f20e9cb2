"""Every built-in kind on a live cluster, as `stowage explain` and `stowage simulate --with` see it: it waits, then has a place.

Operators are not installed: nothing makes pods of most kinds.
"""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from admission.cli import explain, simulate
from admission.integrations.base import JobIntegration
from admission.integrations.declared.functions.trainjob import CLUSTER_RUNTIMES
from admission.integrations.registry import ADAPTERS
from admission.world.rules import WorldRules
from api.errors import NotFound
from api.kube.resources import CRDS, JOBSETS, NODES, Resource
from api.names import QUEUE_NAME_LABEL, REQUIRE_TOPOLOGY
from hack.controlplane.options import ClusterOptions
from tests.admission.integrations.samples import runtime, sample, suspended
from tests.crds import crd_of
from tests.scenarios.site import GPU, GROUP, RACK, Site, eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")
CONTROL_PLANE = ClusterOptions(jobset=True)
MakeSite = Callable[[str], Site]
Object = dict[str, Any]


def named(here: Site, kind: JobIntegration, name: str) -> Object:
    """The contract's sample; its pods ask for a disk that no node has at first."""
    labels, annotations = {QUEUE_NAME_LABEL: "lq"}, {REQUIRE_TOPOLOGY: RACK}
    meta = {"name": name, "namespace": here.name, "labels": labels, "annotations": annotations}
    found: Object = {**suspended(kind, sample(kind), False), "metadata": meta}
    found.pop("status", None)
    if kind.framework == "batch/job":
        del found["spec"]["template"]["metadata"]["labels"]  # the API server adds them
        found["spec"]["completions"] = 3
    return found


async def created(here: Site, resource: Resource, obj: Object) -> None:
    if resource.group != "batch" and resource != JOBSETS:
        await here.make(CRDS, crd_of(resource))

    async def made() -> bool:
        try:
            await here.make(resource, obj)
        except NotFound:
            return False
        return True

    await eventually(f"{resource.plural} are served", made)


def consoles() -> tuple[Console, Console]:
    return Console(file=io.StringIO(), width=400), Console(file=io.StringIO(), width=400)


def text_of(*consoles: Console) -> str:
    return "".join(console.file.getvalue() for console in consoles)  # type: ignore[attr-defined]  # they are StringIOs


async def explained(here: Site, name: str) -> tuple[int, str]:
    out, err = consoles()
    asked = explain.ExplainArguments(f"{here.name}/{name}", kubeconfig=here.kube.settings.kubeconfig)
    code = await asyncio.to_thread(explain.run, asked, WorldRules(), out, err)
    return code, text_of(out, err)


async def would(here: Site, folder: Path) -> dict[str, Object]:
    """What `simulate --with` says of one more of each kind, by kind."""
    more = {kind: f"more-{number}" for number, kind in enumerate(ADAPTERS)}
    documents = [
        {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind, **named(here, kind, name)}
        for kind, name in more.items()
    ]
    path = folder / "more.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    out, err = consoles()
    asked = simulate.SimulateArguments(extra=[path], as_json=True, kubeconfig=here.kube.settings.kubeconfig)
    code = await asyncio.to_thread(simulate.run, asked, WorldRules(), out, err)
    assert code == 0, text_of(err)
    workloads: dict[str, Object] = {each["job"]: each for each in json.loads(text_of(out))["workloads"]}
    return {kind.framework: workloads[f"{kind.resource.kind} {here.name}/{name}"] for kind, name in more.items()}


async def test_each_kind_is_explained_and_simulated_on_the_live_cluster(site: MakeSite, tmp_path: Path) -> None:
    here = site("kinds-live")
    quota = {"cpu": "1000", "memory": "1Ti", GPU: "1000"}
    resources = [{"name": name, "nominalQuota": amount} for name, amount in quota.items()]
    groups = [{"coveredResources": list(quota), "flavors": [{"name": here.name, "resources": resources}]}]
    await here.open({"b1": {"r1": 8, "r2": 8, "r3": 8, "r4": 8}}, resourceGroups=groups)
    await created(here, CLUSTER_RUNTIMES, runtime())
    names = {kind: f"job-{number}" for number, kind in enumerate(ADAPTERS)}
    for kind, name in names.items():
        await created(here, kind.resource, named(here, kind, name))
    for kind, name in names.items():
        await here.waits(name, "TopologyPlacementFailed", "")
        code, said = await explained(here, name)
        assert code == 0, said
        assert f"{kind.resource.kind} {here.name}/{name} in ClusterQueue {here.name}: CannotRun" in said
        assert "TopologyPlacementFailed" in said
    assert {each["state"] for each in (await would(here, tmp_path)).values()} == {"Waiting"}
    for node in (await here.kube.list(NODES, label_selector=f"{GROUP}={here.name}")).items:
        await here.change(NODES, node["metadata"]["name"], {"metadata": {"labels": {"disk": "ssd"}}}, cluster=True)
    for kind, name in names.items():

        async def started(kind: JobIntegration = kind, name: str = name) -> bool:
            return not kind.is_suspended(await here.get_job(name, kind.resource))

        await eventually(f"the {kind.resource.kind} starts", started)
        code, said = await explained(here, name)
        assert code == 0, said
        assert f"{kind.resource.kind} {here.name}/{name} in ClusterQueue {here.name}: Admitted" in said
    for framework, more in (await would(here, tmp_path)).items():
        hosts = {domain["values"][-1] for pod_set in more["podSets"] for domain in pod_set["domains"]}
        racks = {host.removeprefix(f"{here.name}-").split("-")[1] for host in hosts}
        assert len(racks) == 1, (framework, more)
