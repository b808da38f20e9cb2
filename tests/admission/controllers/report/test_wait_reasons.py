"""What a waiting Workload's status says, whatever order the news comes in."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from admission.controllers.report.wait_reasons import WaitReason, WaitReporter
from admission.controllers.state.conditions import INVALID_RESOURCES, NAMESPACE_MISMATCH
from admission.controllers.watch.cluster_view import Views
from admission.controllers.write.status import legacy_reasons, written_reason
from admission.engine.reasons import Reason
from api.kube.client import Kube, PatchKind
from api.kube.events import EventRecorder
from api.kube.informers.informer import Informer
from api.kube.resources import WORKLOADS
from api.meta import find_condition
from api.names import QUOTA_RESERVED
from api.workloads import Workload
from tests.admission.controllers.installed_server import installed, small_workload
from tests.builders import condition
from tests.scenarios.site import eventually, never

NO_ROOM = WaitReason("TopologyPlacementFailed", "no rack is free", {})


@dataclass
class _Views:
    """The part of the views that the reporter looks through."""

    workloads: Informer[Workload]


@dataclass
class WaitReasonsSetup:
    """An API server with one waiting Workload, and the reporter at work on it."""

    kube: Kube
    reporter: WaitReporter
    workloads: Informer[Workload]

    async def says(self, reason: str) -> bool:
        """Whether the API server's copy gives that reason."""
        found = await self.kube.get(WORKLOADS, "wl", "ns", decode=Workload)
        state = find_condition(found.status.conditions, QUOTA_RESERVED)
        return state is not None and state.reason == reason

    async def message(self, message: str) -> bool:
        """Whether the API server's copy says just that."""
        found = await self.kube.get(WORKLOADS, "wl", "ns", decode=Workload)
        state = find_condition(found.status.conditions, QUOTA_RESERVED)
        return state is not None and state.message == message

    async def changed_since(self, version: str | None) -> bool:
        """Whether the API server's copy is a later one."""
        return (await self.kube.get(WORKLOADS, "wl", "ns", decode=Workload)).metadata.resource_version != version

    async def write(self, reason: str) -> None:
        """Writes that reason as somebody else would."""
        body = {"status": {"conditions": [condition(QUOTA_RESERVED, "False", reason, "written by somebody else")]}}
        await self.kube.patch(WORKLOADS, "wl", body, "ns", kind=PatchKind.MERGE, subresource="status")


@pytest.fixture
async def world(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[WaitReasonsSetup]:
    legacy_reasons.set(getattr(request, "param", False))
    async with installed(tmp_path) as kube, contextlib.AsyncExitStack() as stack:
        await kube.create(WORKLOADS, small_workload("wl"))
        workloads = Informer(kube, WORKLOADS, Workload)
        reporter = WaitReporter(kube, cast("Views", _Views(workloads)), EventRecorder(kube, "test"), period=0.01)
        for run in (workloads.run, reporter.reconciler.run):
            task = asyncio.create_task(run())
            stack.callback(task.cancel)
        await workloads.synced(60)
        yield WaitReasonsSetup(kube, reporter, workloads)


@pytest.fixture
def legacy() -> Iterator[None]:
    """As with controller.legacyWaitReasons."""
    token = legacy_reasons.set(True)
    yield
    legacy_reasons.reset(token)


@pytest.mark.parametrize(
    ("reason", "message", "written"),
    [
        *(
            (str(each), "", "Pending")
            for each in (
                Reason.WAITING_FOR_QUOTA,
                Reason.NO_MATCHING_FLAVOR,
                Reason.PENDING_EVALUATION,
                Reason.DEACTIVATED,
            )
        ),
        (Reason.MISCONFIGURED, NAMESPACE_MISMATCH, "Pending"),
        (Reason.MISCONFIGURED, f"{INVALID_RESOURCES}requests exceed it's limits", "Pending"),
        *((each, "", "Inadmissible") for each in (Reason.MISCONFIGURED, Reason.SUSPENDED)),
        (Reason.WAITING_FOR_PODS_READY, "", "Waiting"),
        *((each, "", each) for each in (Reason.ADMISSION_GATED, Reason.ON_HOLD, "Pending", "Inadmissible", "Waiting")),
    ],
)
@pytest.mark.usefixtures("legacy")
def test_kueues_legacy_reasons_are_written_where_a_setting_asks_for_them(
    reason: str, message: str, written: str
) -> None:
    assert written_reason(reason, message) == written


@pytest.mark.parametrize("world", [True], indirect=True, ids=["legacy"])
async def test_a_status_gives_the_legacy_reason_and_is_written_once(world: WaitReasonsSetup) -> None:
    """The reporter takes the legacy reason for its own, and does not write it again."""
    world.reporter.waits("ns/wl", NO_ROOM)
    await eventually("the legacy reason", lambda: world.says("Pending"))
    assert await world.message(NO_ROOM.message)
    version = (await world.kube.get(WORKLOADS, "wl", "ns", decode=Workload)).metadata.resource_version
    world.reporter.waits("ns/wl", NO_ROOM)
    await never("another write", lambda: world.changed_since(version))


async def test_a_reason_is_written_and_a_new_one_takes_its_place(world: WaitReasonsSetup) -> None:
    world.reporter.waits("ns/wl", NO_ROOM)
    await eventually("the reason", lambda: world.says("TopologyPlacementFailed"))
    world.reporter.waits("ns/wl", WaitReason("WaitingForQuota", "1 more needed", {}))
    await eventually("the new reason", lambda: world.says("WaitingForQuota"))


@pytest.mark.parametrize("others", [pytest.param(0, id="it waits alone"), pytest.param(1000, id="so do a thousand")])
async def test_new_numbers_of_a_reason_are_written_less_often_where_many_wait(
    world: WaitReasonsSetup, others: int
) -> None:
    # One admission changes the numbers of everybody behind it: ten thousand writes for each would drown the API server.
    for number in range(others):
        world.reporter.waits(f"ns/other-{number}", NO_ROOM)
    world.reporter.waits("ns/wl", WaitReason("WaitingForQuota", "2 more needed", {}))
    await eventually("the reason", lambda: world.message("2 more needed"))
    world.reporter.waits("ns/wl", WaitReason("WaitingForQuota", "1 more needed", {}))
    if others:
        await never("new numbers", lambda: world.message("1 more needed"), seconds=1.5)
    else:
        await eventually("new numbers", lambda: world.message("1 more needed"))
    world.reporter.waits("ns/wl", NO_ROOM)
    await eventually("a new reason, at once", lambda: world.says("TopologyPlacementFailed"))


async def test_an_answer_given_before_the_stop_is_reported_after_it(world: WaitReasonsSetup) -> None:
    """The queue was stopped and restarted while our watch lagged: its answer came first, the news of the stop later."""
    world.reporter.waits("ns/wl", NO_ROOM)
    await eventually("the reason", lambda: world.says("TopologyPlacementFailed"))
    world.reporter.waits("ns/wl", NO_ROOM)
    await world.write("Suspended")
    await world.write("PendingEvaluation")
    await eventually("the reason", lambda: world.says("TopologyPlacementFailed"))


async def test_what_blocks_a_workload_is_not_overwritten(world: WaitReasonsSetup) -> None:
    world.reporter.waits("ns/wl", NO_ROOM)
    await eventually("the reason", lambda: world.says("TopologyPlacementFailed"))
    await world.write("Suspended")

    async def seen() -> bool:
        found = find_condition(world.workloads.objects["ns/wl"].status.conditions, QUOTA_RESERVED)
        return found is not None and found.reason == "Suspended"

    await eventually("the stop is seen", seen)
    assert await world.says("Suspended")
