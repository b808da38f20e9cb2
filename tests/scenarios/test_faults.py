"""The scenarios while the API server, the network and the webhook misbehave: the same end, and nothing untrue in between.

All stories of test_scenarios.py play at once, each in a corner of its own, under one storm a test: a mix of all faults; in
the long suite the faults of each kind together, each fault alone, and more mixes. Only our three processes suffer (and the
webhook's callers, when it hangs); the client that posts and reads is spared, and tries again only where a user would. At the
end of each storm the invariants have held after every single write, the faults have happened, and no process has logged an
error. Embedded server only: no real one fails on request.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from admission.cli.local_cluster.processes import COMMANDS
from api.embedded.faults import FaultInjector, InjectedFault, Rates
from api.embedded.server import EmbeddedSettings
from api.errors import ServerError
from api.kube.client import PatchKind
from api.kube.resources import JOBS, JOBSETS, MUTATING_WEBHOOKS, NODES, PODS, VALIDATING_WEBHOOKS, Resource
from tests.scenarios import test_scenarios
from tests.scenarios.failures import SHORT_LEASE, complaints
from tests.scenarios.invariants import Invariants
from tests.scenarios.loop_lag import loops_stay_free, readers
from tests.scenarios.site import Site, Tree, eventually
from tests.scenarios.stage import Stage, embedded

pytestmark = pytest.mark.asyncio(loop_scope="session")

ENVIRONMENT: Mapping[str, str] = {
    **SHORT_LEASE,
    "STOWAGE_CLIENT__TIMEOUT": "1.5",
    "STOWAGE_INFORMER__SILENCE": "2",
    "STOWAGE_INFORMER__PAGE_SIZE": "10",
    "STOWAGE_CONTROLLER__SNAPSHOTS": "true",
}
BOOKMARKS = 0.4
HOOK_TIMEOUT = 1

Story = Callable[[Callable[[str], Site]], Awaitable[None]]
STORIES: Mapping[str, Story] = {
    name: story for name, story in inspect.getmembers(test_scenarios, inspect.iscoroutinefunction)
    if name.startswith("test_")
}  # fmt: skip

ALONE: Rates = {
    InjectedFault.GONE: 0.3,
    InjectedFault.DROPPED: 0.2,
    InjectedFault.SILENT: 0.05,
    InjectedFault.DUPLICATE: 0.5,
    InjectedFault.REORDER: 0.3,
    InjectedFault.CONFLICT: 0.3,
    InjectedFault.BUSY: 0.1,
    InjectedFault.BROKEN: 0.25,
    InjectedFault.UNAVAILABLE: 0.15,
    InjectedFault.SLOW: 0.3,
    InjectedFault.CUT: 0.3,
    InjectedFault.HANG: 0.2,
}
KINDS: Mapping[str, tuple[InjectedFault, ...]] = {
    "watches": (
        InjectedFault.GONE,
        InjectedFault.DROPPED,
        InjectedFault.SILENT,
        InjectedFault.DUPLICATE,
        InjectedFault.REORDER,
    ),
    "refusals": (InjectedFault.CONFLICT, InjectedFault.BUSY, InjectedFault.BROKEN, InjectedFault.UNAVAILABLE),
    "answers": (InjectedFault.SLOW, InjectedFault.CUT, InjectedFault.HANG),
}
# Webhooks are called less than a hundred times while the stories are played: at a fifth of its rate some seeds never hang one.
MIXED: Rates = {fault: rate / 5 for fault, rate in ALONE.items()} | {InjectedFault.HANG: 0.1}


@dataclass
class Storm:
    """The stage, its faults, and what is watched while they rage."""

    stage: Stage
    faults: FaultInjector
    invariants: Invariants


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def storm(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Storm]:
    """One stage for the module."""
    faults = FaultInjector(victims=lambda token: token in COMMANDS, slowness=2.0)
    settings = EmbeddedSettings(bookmark_seconds=BOOKMARKS, **faults.seams())
    async with embedded(tmp_path_factory.mktemp("storm"), ENVIRONMENT, settings) as stage:
        assert stage.server is not None
        for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
            await _impatient(stage, resource)
        async with Invariants(stage.server.store).watched() as invariants:
            yield Storm(stage, faults, invariants)


async def _impatient(stage: Stage, resource: Resource) -> None:
    """An API server that waits for our webhooks only shortly."""
    for found in (await stage.kube.list(resource)).items:
        hooks = [{**hook, "timeoutSeconds": HOOK_TIMEOUT} for hook in found["webhooks"]]
        await stage.kube.patch(resource, found["metadata"]["name"], {"webhooks": hooks}, kind=PatchKind.MERGE)


@dataclass
class StormySite(Site):
    """A user who posts again what a hanging webhook has refused; and who lets the controller see the nodes and pods that
    there are before posting a job for them: nobody can blame it for what it could not know."""

    metrics: str = ""

    async def make(self, resource: Resource, obj: Mapping[str, Any]) -> dict[str, Any]:
        while True:
            try:
                made = await super().make(resource, obj)
            except ServerError:
                await asyncio.sleep(0.05)
                continue
            if resource is PODS:
                await self._seen(PODS)
            return made

    async def change(self, resource: Resource, name: str, body: Mapping[str, Any], *, cluster: bool = False) -> None:
        while True:
            try:
                return await super().change(resource, name, body, cluster=cluster)
            except ServerError:
                await asyncio.sleep(0.05)

    async def add_nodes(self, tree: Tree) -> None:
        await super().add_nodes(tree)
        await self._seen(NODES)

    async def _seen(self, resource: Resource) -> None:
        """Waits until the controller's copies, each of another selection, have reached what the API server has now."""
        now = float((await self.kube.list(resource, limit=1)).resource_version)
        gauge = f'stowage_informer_resource_version{{resource="{resource.plural}",'

        async def reached() -> bool:
            async with aiohttp.ClientSession() as session, session.get(self.metrics) as answer:
                text = await answer.text()
            copies = [float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(gauge)]
            begun = [copy for copy in copies if copy]  # pending pods are watched only once one of them is refused
            return bool(begun) and min(begun) >= now

        await eventually(f"the controller sees the {resource.plural}", reached)


_rounds = count(1)


async def play(storm: Storm) -> None:
    """All stories at once; the failures of all are raised together."""
    number = next(_rounds)
    sites: list[Site] = []
    health = storm.stage.processes.children["controller"].health_port

    def site(name: str) -> Site:
        made = StormySite(storm.stage.kube, f"{name}-{number}", metrics=f"http://127.0.0.1:{health}/metrics")
        sites.append(made)
        return made

    results = await asyncio.gather(*(story(site) for story in STORIES.values()), return_exceptions=True)
    failures = [_named(name, bad) for name, bad in zip(STORIES, results, strict=True) if isinstance(bad, Exception)]
    if failures:
        raise ExceptionGroup("stories that ended otherwise", failures)
    await asyncio.gather(*map(_cleared, sites))


def _named(story: str, error: Exception) -> Exception:
    error.add_note(f"in {story}")
    return error


async def _cleared(site: Site) -> None:
    """The site's jobs and nodes go: the next storm's stories have the cluster for themselves."""
    for resource in (JOBS, JOBSETS, PODS):
        for found in (await site.kube.list(resource, site.name)).items:
            await site.kube.delete(resource, found["metadata"]["name"], site.name, propagation="Background")


async def endure(storm: Storm, rates: Rates, seed: int) -> None:
    """The stories under a storm, and all that must be true of it; metrics and snapshots are read meanwhile."""
    children = storm.stage.processes.children
    async with loops_stay_free(children), readers(children, "metrics", "snapshot"):
        with storm.faults.storm(rates, seed) as struck:
            await play(storm)
    missing = [fault for fault, rate in rates.items() if rate and not struck[fault]]
    assert not missing, f"never happened: {missing}; {struck}"
    assert storm.invariants.broken == []
    assert complaints(storm.stage.processes.folder) == []


async def test_without_faults_the_stories_end_as_they_do_alone(storm: Storm) -> None:
    await play(storm)
    assert storm.invariants.broken == []
    assert storm.invariants.writes > 100


@pytest.mark.long
@pytest.mark.parametrize("faults", KINDS.values(), ids=KINDS)
async def test_faults_of_a_kind(storm: Storm, faults: tuple[InjectedFault, ...]) -> None:
    await endure(storm, {fault: ALONE[fault] / 2 for fault in faults}, 1)


async def test_an_api_server_that_refuses_everything_for_a_while_delays_and_loses_nothing(storm: Storm) -> None:
    """429 with a time, to each request of our processes, longer than the lease lasts: the stories end as without."""
    playing = asyncio.create_task(play(storm))
    with storm.faults.storm({InjectedFault.BUSY: 1.0}) as struck:
        await eventually("many requests refused", lambda: _refused(struck, 60))
    await playing
    assert storm.invariants.broken == []
    assert complaints(storm.stage.processes.folder) == []


async def _refused(struck: Counter[InjectedFault], least: int) -> bool:
    return struck[InjectedFault.BUSY] >= least


async def test_every_fault_is_of_one_kind() -> None:
    assert sorted(fault for faults in KINDS.values() for fault in faults) == sorted(InjectedFault)


@pytest.mark.long
@pytest.mark.parametrize("fault", list(InjectedFault))
async def test_each_fault_alone(storm: Storm, fault: InjectedFault) -> None:
    await endure(storm, {fault: ALONE[fault]}, 1)


@pytest.mark.parametrize("seed", [1])
async def test_mixed_faults(storm: Storm, seed: int) -> None:
    await endure(storm, MIXED, seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 18))
async def test_many_mixes(storm: Storm, seed: int) -> None:
    await endure(storm, MIXED, seed)
