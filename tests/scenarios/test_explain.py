"""A job that does not fit, what `stowage explain` says of it, and that what it says is true: the user does it, the job runs."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from admission.cli import explain as command
from admission.world.rules import WorldRules
from api.kube.resources import EVENTS, JOBS
from api.meta import Condition, find_condition
from api.names import EXPLANATION, REQUIRE_TOPOLOGY
from tests.scenarios.site import BLOCK, RACK, Site, eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")
ENVIRONMENT = {"STOWAGE_CONTROLLER__EXPLAIN_AFTER": "0.5"}

MakeSite = Callable[[str], Site]


async def explain(here: Site, name: str, *, as_json: bool = True) -> str:
    """What the command prints."""
    out, err = Console(file=io.StringIO(), width=160), Console(file=io.StringIO(), width=160)
    asked = command.ExplainArguments(f"{here.name}/{name}", as_json=as_json, kubeconfig=here.kube.settings.kubeconfig)
    code = await asyncio.to_thread(command.run, asked, WorldRules(), out, err)
    assert code == 0, err.file.getvalue()  # type: ignore[attr-defined]  # it is a StringIO
    told: str = out.file.getvalue()  # type: ignore[attr-defined]  # it is a StringIO
    return told


async def remedies(here: Site, name: str) -> dict[str, Any]:
    """The first change of each kind that alone would do."""
    found = json.loads(await explain(here, name))
    single = [remedy["changes"][0] for remedy in found["remedies"] if len(remedy["changes"]) == 1]
    return {change["kind"]: change for change in reversed(single)}


async def explanation(here: Site, name: str, text: str) -> Condition:
    """Waits until the status says so."""

    async def check() -> Condition | None:
        workload = await here.workload_of(name)
        said = None if workload is None else find_condition(workload.status.conditions, EXPLANATION)
        return said if said is not None and text in said.message else None

    return await eventually(f"{name} is explained: {text}", check)


async def test_a_job_too_wide_for_any_rack_runs_where_explain_says_that_it_would(site: MakeSite) -> None:
    here = site("relax")
    await here.open({"b1": {"r1": 2, "r2": 2}})
    await here.submit(here.job("wide", 12, {REQUIRE_TOPOLOGY: RACK}))
    await here.waits("wide", "TopologyPlacementFailed", "allows to fit only 8 out of 12 pod(s)")
    said = await explanation(here, "wide", f"main required {BLOCK} instead of {RACK}")
    assert said.reason == "CannotRun"

    async def told() -> bool:
        return any(e["reason"] == "TopologyPlacementFailed" for e in (await here.kube.list(EVENTS, here.name)).items)

    await eventually("an event says why it waits", told)
    found = json.loads(await explain(here, "wide"))
    assert (found["verdict"], found["headline"]) == ("CannotRun", said.message)
    relax = (await remedies(here, "wide"))["RelaxTopology"]
    await here.remove(JOBS, "wide")
    await here.submit(here.job("wide", 12, {REQUIRE_TOPOLOGY: relax["to"]}))
    racks = await here.racks(await here.running("wide", 12))
    assert (sorted(racks), sorted(racks.values())) == (["b1/r1", "b1/r2"], [4, 8])
    workload = await here.admitted("wide")
    assert find_condition(workload.status.conditions, EXPLANATION) is None
    # By the Workload's own name: the garbage collector may not have come for that of the first job yet.
    assert "is admitted" in await explain(here, workload.metadata.name, as_json=False)


async def test_the_workloads_that_would_have_to_finish_are_those_that_do(site: MakeSite) -> None:
    here = site("finish")
    await here.open({"b1": {"r1": 2, "r2": 2}})
    await here.submit(here.job("large", 7, {REQUIRE_TOPOLOGY: RACK}))
    await here.running("large", 7)
    for name in ("one", "two"):
        await here.submit(here.job(name, 3, {REQUIRE_TOPOLOGY: RACK}))
        await here.running(name, 3)
    await here.submit(here.job("next", 5, {REQUIRE_TOPOLOGY: RACK}))
    await here.waits("next", "TopologyPlacementFailed", "allows to fit only 2 out of 5 pod(s)")
    [key] = (await remedies(here, "next"))["Finish"]["workloads"]
    keys = {name: workload.key for name in ("one", "two") if (workload := await here.workload_of(name)) is not None}
    (name,) = (name for name, its in keys.items() if its == key)
    await here.remove(JOBS, name)
    await here.running("next", 5)
