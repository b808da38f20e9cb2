"""`stowage simulate --with` and `stowage explain` beside a controller with settings of its own: they answer as it then decides.

Fair sharing is on, and quota does not look at cpu; without the same settings the commands would answer otherwise.
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
from admission.settings import AdmissionSettings
from admission.world.rules import WorldRules, rules_of
from api.kube.resources import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, Resource
from api.names import PREFER_TOPOLOGY, REQUIRE_TOPOLOGY
from tests.scenarios.site import GPU, RACK, Site, eventually
from tests.scenarios.tenants import RECLAIM, evicted, tenant

pytestmark = pytest.mark.asyncio(loop_scope="session")
ENVIRONMENT = {
    "STOWAGE_FAIR_SHARING__ENABLE": "true",
    "STOWAGE_RESOURCES__EXCLUDE_RESOURCE_PREFIXES": '["cpu"]',
    "STOWAGE_CONTROLLER__EXPLAIN_AFTER": "0.5",
}

MakeSite = Callable[[str], Site]


@pytest.fixture
def rules(monkeypatch: pytest.MonkeyPatch) -> WorldRules:
    """Of the processes' own settings."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    return rules_of(AdmissionSettings())


def written(folder: Path, resource: Resource, obj: dict[str, Any]) -> Path:
    """The object as a file."""
    path = folder / f"{obj['metadata']['name']}.yaml"
    path.write_text(yaml.safe_dump({"apiVersion": resource.api_version, "kind": resource.kind, **obj}))
    return path


async def would(here: Site, rules: WorldRules, path: Path) -> dict[str, Any]:
    """What `simulate --with` says of the job."""
    out, err = Console(file=io.StringIO(), width=160), Console(file=io.StringIO(), width=160)
    asked = simulate.SimulateArguments(extra=[path], as_json=True, kubeconfig=here.kube.settings.kubeconfig)
    code = await asyncio.to_thread(simulate.run, asked, rules, out, err)
    assert isinstance(out.file, io.StringIO)
    assert isinstance(err.file, io.StringIO)
    assert code == 0, err.file.getvalue()
    (found,) = json.loads(out.file.getvalue())["workloads"]
    return dict(found)


async def test_the_simulated_victims_are_the_controllers_victims(
    site: MakeSite, rules: WorldRules, tmp_path: Path
) -> None:
    here = site("whatif")
    await here.open({"b1": {"r1": 2, "r2": 2}}, quota=0, cohortName="whatif")
    for name in ("ours", "theirs"):
        await tenant(here, name, 8, preemption=RECLAIM, fairSharing={"weight": "1"})
    for n in range(4):
        await here.submit(here.job(f"lent-{n}", 4, {REQUIRE_TOPOLOGY: RACK}, queue="theirs"))
    for n in range(4):
        await here.running(f"lent-{n}", 4)
    owner = here.job("owner", 8, {PREFER_TOPOLOGY: RACK}, queue="ours")
    told = await would(here, rules, written(tmp_path, JOBS, owner))
    assert told["state"] == "Running"
    assert len(told["preempts"]) == 2
    assert not await evicted(here), "it only reads"
    before = {
        w.key: name for name in (f"lent-{n}" for n in range(4)) if (w := await here.workload_of(name)) is not None
    }
    await here.submit(owner)
    racks = await here.racks(await here.running("owner", 8))
    gone = await evicted(here)
    assert {before[key] for key in told["preempts"]} == set(gone)
    (domains,) = (pod_set["domains"] for pod_set in told["podSets"])
    assert sum(domain["count"] for domain in domains) == sum(racks.values()) == 8


async def test_excluded_resources_keep_no_workload_waiting(site: MakeSite, rules: WorldRules, tmp_path: Path) -> None:
    here = site("uncounted")
    await here.open({"b1": {"r1": 2}})
    resources = [{"name": "cpu", "nominalQuota": 0}, {"name": GPU, "nominalQuota": 4}]
    groups = [{"coveredResources": ["cpu", GPU], "flavors": [{"name": here.name, "resources": resources}]}]
    spec = {"namespaceSelector": {}, "resourceGroups": groups}
    await here.make(CLUSTER_QUEUES, {"metadata": {"name": "uncounted-no-cpu"}, "spec": spec})
    local = {"metadata": {"name": "none", "namespace": here.name}, "spec": {"clusterQueue": "uncounted-no-cpu"}}
    await here.make(LOCAL_QUEUES, local)
    first = written(tmp_path, JOBS, here.job("first", 4, queue="none"))
    assert (await would(here, rules, first))["state"] == "Running"
    assert (await would(here, WorldRules(), first))["reason"] == "ExceedsMaxQuota"
    await here.submit(here.job("first", 4, queue="none"))
    await here.running("first", 4)

    second = written(tmp_path, JOBS, here.job("second", 2, queue="none"))
    told = await would(here, rules, second)
    await here.submit(here.job("second", 2, queue="none"))
    workload = await here.waits("second", told["reason"], told["message"])
    found = await eventually("the same from explain", lambda: explained(here, rules, "second"))
    assert (found["workload"], found["reason"], found["message"]) == (workload.key, told["reason"], told["message"])


async def explained(here: Site, rules: WorldRules, name: str) -> dict[str, Any] | None:
    """The command's JSON."""
    out, err = Console(file=io.StringIO(), width=160), Console(file=io.StringIO(), width=160)
    asked = explain.ExplainArguments(f"{here.name}/{name}", as_json=True, kubeconfig=here.kube.settings.kubeconfig)
    code = await asyncio.to_thread(explain.run, asked, rules, out, err)
    assert isinstance(out.file, io.StringIO)
    return dict(json.loads(out.file.getvalue())) if code == 0 else None
