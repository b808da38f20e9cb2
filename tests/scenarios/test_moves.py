"""A gang that waits while quota and room are there and no rack is whole, and what `stowage defrag` plans."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from admission.cli.defrag import command
from admission.world.rules import WorldRules
from api.kube.resources import JOBS, PODS, WORKLOADS
from api.meta import find_condition
from api.names import EXPLANATION, MINIMUM_RUN_TIME, MOVABLE, PREFER_TOPOLOGY, REQUIRE_TOPOLOGY
from tests.scenarios.site import RACK, Site, eventually
from tests.scenarios.tenants import prioritized

pytestmark = pytest.mark.asyncio(loop_scope="session")

MakeSite = Callable[[str], Site]


async def plans(here: Site) -> list[dict[str, Any]]:
    """What the command finds for this cluster's waiting jobs."""
    out, err = Console(file=io.StringIO(), width=160), Console(file=io.StringIO(), width=160)
    asked = command.DefragArguments(as_json=True, kubeconfig=here.kube.settings.kubeconfig)
    code = await asyncio.to_thread(command.run, asked, WorldRules(), out, err)
    assert code == 0, err.file.getvalue()  # type: ignore[attr-defined]  # it is a StringIO
    found: list[dict[str, Any]] = json.loads(out.file.getvalue())  # type: ignore[attr-defined]  # it is a StringIO
    return [one for one in found if f" {here.name}/" in one["target"]]


async def ended(here: Site, job: str) -> None:
    """Removes the job and waits until its pods and its Workload are gone: the next job would find too little room before, and
    the controller would move others for it.
    """
    await here.remove(JOBS, job)

    async def gone() -> bool:
        pods = await here.kube.list(PODS, here.name, label_selector=f"batch.kubernetes.io/job-name={job}")
        workloads = (await here.kube.list(WORKLOADS, here.name)).items
        return not pods.items and not any(one["metadata"]["name"].startswith(f"job-{job}-") for one in workloads)

    await eventually(f"nothing of {job} is left", gone)


async def fragmented(
    here: Site,
    terms: dict[str, str],
    *,
    gang: bool = True,
    waits: bool = True,
    small_of: int | None = None,
    **queue: Any,
) -> None:
    """Three racks of 8 cpus, in each a job that leaves less than a whole rack; `small`, of three pods, may be split.

    `waits`: returns once the `gang` says why it waits. `small_of` is the priority of `small`.
    """
    await here.open({"b1": {"r1": 2, "r2": 2, "r3": 2}}, **queue)
    await fragment(here, terms, small_of)
    if not gang:
        return
    await here.submit(here.job("gang", 8, {REQUIRE_TOPOLOGY: RACK}))
    if waits:
        await here.waits("gang", "TopologyPlacementFailed", "allows to fit only 5 out of 8 pod(s)")


async def fragment(here: Site, terms: dict[str, str], small_of: int | None = None) -> None:
    """Lets jobs run in three racks of 8 cpus as `fragmented` says, without a gang."""
    await here.submit(here.job("first", 8, {REQUIRE_TOPOLOGY: RACK}))
    await here.running("first", 8)
    small = here.job("small", 3, {PREFER_TOPOLOGY: RACK, **terms})
    await here.submit(small if small_of is None else await prioritized(here, small, small_of))
    await here.running("small", 3)
    await ended(here, "first")
    for name in ("left", "right"):
        await here.submit(here.job(name, 6, {REQUIRE_TOPOLOGY: RACK}))
        await here.running(name, 6)


async def test_what_is_planned_is_true_when_a_user_does_it(site: MakeSite) -> None:
    here = site("moves")
    await fragmented(here, {MOVABLE: "true", MINIMUM_RUN_TIME: "0s"})
    small = await here.workload_of("small")
    assert small is not None
    (found,) = await plans(here)
    (move,) = found["plan"]["moves"]
    assert (move["workload"], found["plan"]["certificate"]["proof"]) == (small.key, "Optimal")
    await here.remove(JOBS, "small")
    assert list(await here.racks(await here.running("gang", 8))) == ["b1/r2"]
    await here.submit(here.job("small", 3, {PREFER_TOPOLOGY: RACK}))
    assert sorted(await here.racks(await here.running("small", 3))) == ["b1/r1", "b1/r3"]


async def test_the_moves_of_a_plan_are_made_on_request(site: MakeSite) -> None:
    here = site("applied")
    await fragmented(here, {MOVABLE: "true", MINIMUM_RUN_TIME: "0s"})
    out, err = Console(file=io.StringIO(), width=160), Console(file=io.StringIO(), width=160)
    asked = command.DefragArguments(kubeconfig=here.kube.settings.kubeconfig, apply=True)
    code = await asyncio.to_thread(command.run, asked, WorldRules(), out, err)
    told = err.file.getvalue()  # type: ignore[attr-defined]  # it is a StringIO
    assert code == 0, told
    small = await here.workload_of("small")
    assert small is not None
    assert f"{small.key} has left its old place" in told
    assert list(await here.racks(await here.running("gang", 8))) == ["b1/r2"]
    assert sorted(await here.racks(await here.running("small", 3))) == ["b1/r1", "b1/r3"]
    code = await asyncio.to_thread(command.run, asked, WorldRules(), out, err)
    assert code in (command.NOT_MADE, command.NOT_PLANNED)  # nothing waits, or nothing that moves help


async def test_a_job_that_did_not_agree_is_not_moved(site: MakeSite) -> None:
    here = site("stays")
    await fragmented(here, {MINIMUM_RUN_TIME: "0s"})
    (found,) = await plans(here)
    assert found["noPlan"]["reason"] == "NotMovable"
    assert found["noPlan"]["stays"] == {"not declared movable": 3}

    async def told() -> str | None:
        workload = await here.workload_of("gang")
        explained = None if workload is None else find_condition(workload.status.conditions, EXPLANATION)
        return explained.message if explained is not None and "would leave" in explained.message else None

    text, small = await eventually("the status says what would free a rack", told), await here.workload_of("small")
    assert small is not None
    assert f"{small.key} would leave b1/r2 for other places" in text
    assert f'stowage.dev/movable: "true" were on {small.key} or on ClusterQueue {here.name}' in text
    assert "controller.moves were on" in text
