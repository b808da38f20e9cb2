"""Bad input: every object of the table gets exactly the answer that the table says, and nothing else is harmed by it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from api.errors import ApiError, Conflict, Forbidden, NotFound
from api.kube.client import PatchKind
from api.kube.resources import CLUSTER_QUEUES, COHORTS, EVENTS, JOBS, JOBSETS, LOCAL_QUEUES, RESOURCE_FLAVORS, Resource
from api.meta import find_condition
from api.names import REQUIRE_TOPOLOGY
from hack.controlplane.options import ClusterOptions
from tests.scenarios import (
    invalid_elastic,
    invalid_flavors,
    invalid_job_queues,
    invalid_jobs,
    invalid_limits,
    invalid_moves,
    invalid_nodes,
    invalid_placement,
    invalid_queues,
    invalid_workload_statuses,
    invalid_workloads,
)
from tests.scenarios.failures import complaints
from tests.scenarios.invalid_input import (
    SITE,
    Answer,
    ChangeStep,
    GoneStep,
    Holds,
    InvalidRow,
    Make,
    Refused,
    RunsStep,
    Says,
    Step,
    Waits,
    Warns,
    group,
)
from tests.scenarios.site import RACK, Site, eventually
from tests.scenarios.stage import Stage

CONTROL_PLANE = ClusterOptions(jobset=True)

TABLE: tuple[InvalidRow, ...] = (
    *invalid_jobs.ROWS,
    *invalid_job_queues.ROWS,
    *invalid_placement.ROWS,
    *invalid_flavors.ROWS,
    *invalid_queues.ROWS,
    *invalid_workloads.ROWS,
    *invalid_workload_statuses.ROWS,
    *invalid_nodes.ROWS,
    *invalid_elastic.ROWS,
    *invalid_limits.ROWS,
    *invalid_moves.ROWS,
)
"""Every row."""


@dataclass
class Corner:
    """The good site that the rows share, and the processes as they were before the first of them."""

    site: Site
    good: Site
    stage: Stage
    pids: list[int]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def corner(stage: Stage) -> AsyncIterator[Corner]:
    """Opened once for the whole table."""
    site = Site(stage.kube, SITE)
    await site.open({"b1": {"r1": 2}})
    for resource, spec in PLAIN.items():
        await site.make(resource, {"metadata": {"name": "plain", "namespace": SITE}, "spec": spec})
    await eventually("the webhook knows the queues", lambda: _refused(site, invalid_jobs.NOWHERE, "lq"))
    await eventually("the webhook knows the plain queue", lambda: _refused(site, RACK, "plain"))
    good = Site(stage.kube, "good")
    await good.open({"b1": {"r1": 1}})
    yield Corner(site, good, stage, stage.processes.pids)


PLAIN: Mapping[Resource, dict[str, Any]] = {
    RESOURCE_FLAVORS: {},
    CLUSTER_QUEUES: {"namespaceSelector": {}, "resourceGroups": [group("plain")]},
    LOCAL_QUEUES: {"clusterQueue": "plain"},
}
"""A queue whose flavor has no topology."""


async def _refused(site: Site, level: str, queue: str) -> bool:
    job = site.job("probe", 1, {REQUIRE_TOPOLOGY: level}, queue=queue)
    body = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, **job}
    try:
        await site.kube.create(JOBS, body, dry_run=True)
    except Forbidden:
        return True
    return False


def test_the_table_is_long_enough_and_its_names_are_its_own() -> None:
    assert len(TABLE) >= 60
    assert len({row.id for row in TABLE}) == len(TABLE)


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.where}-{row.id}")
async def test_bad_input(corner: Corner, row: InvalidRow) -> None:
    answers = row.answers
    if corner.stage.name == "embedded" and row.embedded is not None:
        if isinstance(row.embedded, str):
            pytest.skip(f"{row.id}: {row.embedded}")
        answers = row.embedded
    play = _Play(corner.site, row)
    before, refusals = (
        [a for a in answers if not isinstance(a, Refused)],
        [a for a in answers if isinstance(a, Refused)],
    )
    *good, bad = row.steps
    for step in good:
        await play.do(step)
    if refusals:
        for answer in before:
            await play.check(answer)
        await play.refused(bad, refusals[0])
        return
    await play.do(bad)
    for answer in before:
        await play.check(answer)


@pytest.mark.asyncio(loop_scope="session")
async def test_a_circle_of_cohorts_that_is_broken_lets_its_queue_admit_again(corner: Corner) -> None:
    ring = next(row for row in TABLE if row.id == "cohort-cycle")
    play = _Play(corner.site, InvalidRow("fixed", ring.where, ring.steps, ring.answers))
    for step in (*ring.steps, ChangeStep(COHORTS, {"spec": {"parentName": None}})):
        await play.do(step)
    await play.check(RunsStep(2))


@pytest.mark.asyncio(loop_scope="session")
async def test_after_the_whole_table_a_good_job_runs_and_nothing_has_crashed(corner: Corner) -> None:
    good = corner.good
    await good.submit(good.job("job", 4, {REQUIRE_TOPOLOGY: RACK}))
    assert await good.racks(await good.running("job", 4)) == {"b1/r1": 4}
    assert corner.stage.processes.pids == corner.pids
    assert complaints(corner.stage.processes.folder) == []


@dataclass
class _Play:
    """One row at the stage."""

    site: Site
    row: InvalidRow

    # ---- what is done

    async def do(self, step: Step) -> None:
        match step:
            case Make():
                await self.site.kube.create(step.resource, self._object(step))
            case ChangeStep():
                for _ in range(step.times):
                    await self._change(step)

    def _object(self, step: Make) -> dict[str, Any]:
        body = self._own(step.body)
        meta = {"name": self.row.id, **body.get("metadata", {})}
        if step.resource.namespaced:
            meta.setdefault("namespace", SITE)
        return {"apiVersion": step.resource.api_version, "kind": step.resource.kind, **body, "metadata": meta}

    async def _change(self, step: ChangeStep) -> None:
        """Tried again while our own processes are writing the same object."""
        namespace = SITE if step.resource.namespaced else None
        part = "status" if step.status else None
        name, body = self._own(step.name), self._own(step.body)
        while True:
            try:
                await self.site.kube.patch(step.resource, name, body, namespace, kind=PatchKind.MERGE, subresource=part)
                return
            except Conflict:
                await asyncio.sleep(0.05)

    def _own(self, text: Any) -> Any:
        """With the row's name in the place of `<id>`."""
        if isinstance(text, str):
            return text.replace("<id>", self.row.id)
        if isinstance(text, Mapping):
            return {self._own(key): self._own(value) for key, value in text.items()}
        return [self._own(item) for item in text] if isinstance(text, list | tuple) else text

    # ---- what comes of it

    async def refused(self, step: Step, wanted: Refused) -> None:
        """Exactly so: a webhook's words from beginning to end, the server's own somewhere in its message."""
        with pytest.raises(ApiError) as caught:
            await self.do(step)
        said = caught.value
        _, ours, message = str(said.args[0]).partition("denied the request: ")
        answered = (403, "Forbidden") if ours else (wanted.status, wanted.reason)
        assert (said.status, said.reason) == answered, said
        if ours:
            assert message == self._own(wanted.message)
        else:
            assert self._own(wanted.message) in str(said)

    async def check(self, answer: Answer) -> None:
        """Waits until the answer is there."""
        match answer:
            case Says():
                await self._says(answer)
            case Waits():
                await self._waits(answer)
            case Warns():
                await self._warns(answer)
            case RunsStep():
                await self.site.running(self.row.id, answer.pods)
            case GoneStep():
                await self._gone(answer)
            case Holds():
                assert await self._held(answer) == self._own(answer.value)

    async def _get(self, resource: Resource, name: str) -> dict[str, Any]:
        return await self.site.kube.get(resource, self._own(name), SITE if resource.namespaced else None)

    async def _same(self, what: str, wanted: tuple[str, ...], ask: Any) -> None:
        last: Any = None

        async def check() -> bool:
            nonlocal last
            last = await ask()
            return bool(last == wanted)

        try:
            await eventually(what, check)
        except AssertionError:
            pytest.fail(f"{what}: {last}, not {wanted}")

    async def _says(self, answer: Says) -> None:
        wanted = (answer.status, answer.reason, self._own(answer.message))

        async def ask() -> tuple[str, ...] | None:
            obj = await self._get(answer.resource, answer.name)
            found = [c for c in (obj.get("status") or {}).get("conditions") or [] if c["type"] == answer.type]
            return (found[0]["status"], found[0]["reason"], found[0]["message"]) if found else None

        await self._same(f"{answer.type} of {answer.resource.kind}", wanted, ask)

    async def _waits(self, answer: Waits) -> None:
        wanted = ("False", answer.reason, self._own(answer.message))
        name = self._own(answer.job)

        async def ask() -> tuple[str, ...] | None:
            workload = await self.site.workload_of(name)
            found = find_condition(workload.status.conditions, "QuotaReserved") if workload else None
            if workload is None or found is None:
                return None
            return (found.status, found.reason, found.message.replace(workload.metadata.name, "<workload>"))

        await self._same(f"why {name} waits", wanted, ask)
        await self._rests(answer.resource)

    async def _rests(self, resource: Resource) -> None:
        async def check() -> bool:
            found = await self._get(resource, self.row.id)
            return bool(found["spec"].get("suspend")) and not await self.site.pods(
                self.row.id, jobset=resource is JOBSETS
            )

        await eventually(f"{self.row.id} suspended without pods", check)

    async def _warns(self, answer: Warns) -> None:
        wanted = (answer.reason, self._own(answer.message))
        told: list[tuple[str, str]] = []

        async def check() -> bool:
            events = (await self.site.kube.list(EVENTS, SITE)).items
            told[:] = [(e["reason"], e["message"]) for e in events if e["involvedObject"]["name"] == self.row.id]
            return wanted in told

        try:
            await eventually("told in an event", check)
        except AssertionError:
            pytest.fail(f"{wanted} was not told: {told}")
        await self._rests(answer.resource)

    async def _gone(self, answer: GoneStep) -> None:
        async def check() -> bool:
            try:
                await self._get(answer.resource, self.row.id)
            except NotFound:
                return not await self.site.pods(self.row.id)
            return False

        await eventually(f"{self.row.id} gone", check)

    async def _held(self, answer: Holds) -> Any:
        value: Any = await self._get(answer.resource, answer.name)
        for name in answer.path.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        return value
