"""The explanation in a waiting Workload's status: after some patience, from the engine's own value, written once."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from admission.controllers.report import explainer as explainer_module
from admission.controllers.report.explainer import Explainer, ExplanationLimits, code_of
from admission.controllers.report.wait_reasons import WaitReason, WaitReporter
from admission.controllers.state import conditions
from admission.controllers.watch.cluster_view import Views
from admission.engine.explain.explain import explain
from admission.engine.explain.explanation import Explanation
from admission.engine.explain.wording import NEVER, headline
from api.errors import NotLeader
from api.kube.client import Kube
from api.kube.events import EventRecorder
from api.kube.informers.informer import Informer
from api.kube.resources import EVENTS, WORKLOADS
from api.meta import Condition, find_condition
from api.names import EXPLANATION
from api.workloads import Admission, Workload, WorkloadStatus
from tests.admission.controllers.installed_server import installed, small_workload
from tests.admission.engine.builders import Cluster
from tests.admission.engine.explain import waiting_cases
from tests.admission.engine.explain.situations import W, full_racks, rack_too_small
from tests.scenarios.site import eventually, never


@dataclass
class _ExplainerViews:
    """The part of the views that is looked through."""

    workloads: Informer[Workload]


@dataclass
class ExplainerSetup:
    """An API server with the Workload `ns/w`, its cluster as the engine sees it, and the reporter with its explainer."""

    kube: Kube
    cluster: Cluster
    reporter: WaitReporter

    async def condition(self) -> Condition | None:
        """The explanation in the API server's copy."""
        found = await self.kube.get(WORKLOADS, "w", "ns", decode=Workload)
        return find_condition(found.status.conditions, EXPLANATION)

    async def version(self) -> str | None:
        """The resource version."""
        found = await self.kube.get(WORKLOADS, "w", "ns", decode=Workload)
        return found.metadata.resource_version

    async def told(self) -> list[str] | None:
        """The messages of the events of that reason; None while there is none."""
        events = (await self.kube.list(EVENTS, "ns")).items
        return [event["message"] for event in events if event["reason"] == "Explanation"] or None


@contextlib.asynccontextmanager
async def world(
    folder: Path,
    cluster: Cluster,
    patience: ExplanationLimits,
    scene: waiting_cases.Made | None = None,
    fence: Callable[[], None] = lambda: None,
    rest: float = 1.0,
) -> AsyncIterator[ExplainerSetup]:
    """Everything at work; `scene`: at its moment, under its rules; `fence`: asked before an explanation is written.

    `rest`: seconds for each second of explaining; the product's own 50 would pass before each try after a conflict.
    """
    moment = scene or waiting_cases.Made(cluster, time.time())
    async with installed(folder) as kube, contextlib.AsyncExitStack() as stack:
        stack.enter_context(pytest.MonkeyPatch.context()).setattr(explainer_module, "_REST", rest)
        await kube.create(WORKLOADS, small_workload("w"))
        views = cast("Views", _ExplainerViews(Informer(kube, WORKLOADS, Workload)))
        recorder = EventRecorder(kube, "test")
        explainer = Explainer(
            kube.fenced(fence),
            views,
            cluster.ledger,
            cluster.queues,
            recorder,
            patience,
            lambda: moment.now,
            sharing=moment.sharing,
            startable=lambda: moment.startable,
        )
        reporter = WaitReporter(kube, views, recorder, period=0.0, explainer=explainer)
        runs = (views.workloads.run, recorder.run, reporter.reconciler.run, explainer.reconciler.run)
        for run in runs:
            task = asyncio.create_task(run())
            stack.callback(task.cancel)
        await views.workloads.synced(60)
        yield ExplainerSetup(kube, cluster, reporter)


async def test_status_and_event_say_what_the_explanation_says_and_only_once(tmp_path: Path) -> None:
    cluster = full_racks()
    pending = cluster.queues.workload(W)
    assert pending is not None
    found = explain(cluster.ledger, pending, 0.0)
    async with world(tmp_path, cluster, ExplanationLimits(first=0.0)) as here:
        wait = WaitReason(found.reason, found.message, {})
        here.reporter.waits(W, wait)
        said = await eventually("the explanation", here.condition)
        assert (said.reason, said.message) == (found.reason, headline(found))
        assert await eventually("the event", here.told) == [headline(found)]
        await eventually("the reason", lambda: _reason_written(here, found.message))
        before = await here.version()

        async def told_again() -> bool:
            here.reporter.waits(W, wait)
            return await here.version() != before

        await never("written again", told_again, seconds=0.3)


async def _reason_written(here: ExplainerSetup, message: str) -> bool:
    found = await here.kube.get(WORKLOADS, "w", "ns", decode=Workload)
    return any(condition.message == message for condition in found.status.conditions)


async def test_it_rests_also_after_what_it_could_not_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Without its Lease a controller that explained on and on kept the loop from taking the Lease again.
    tries: list[tuple[float, float]] = []

    def timed(*arguments: Any, **named: Any) -> Explanation:
        began, before = time.perf_counter(), time.thread_time()
        found = explain(*arguments, **named)
        tries.append((began, time.thread_time() - before))
        return found

    def fence() -> None:
        raise NotLeader("the lease is lost")

    rest = explainer_module._REST
    monkeypatch.setattr(explainer_module, "explain", timed)
    async with world(tmp_path, full_racks(), ExplanationLimits(first=0.0), fence=fence, rest=rest) as here:
        here.reporter.waits(W, WaitReason("TopologyPlacementFailed", "no rack", {}))

        async def again() -> bool:
            return len(tries) > 1

        await eventually("a second try", again)
    (began, computed), (next_, _) = tries[:2]
    assert next_ - began > rest * computed


async def test_what_disappears_while_it_is_read_is_a_defect_only_if_it_does_so_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A node that was deleted between two turns left a traceback in the log, as a defect does."""
    tries: list[int] = []

    def failing(*arguments: Any, **named: Any) -> Explanation:
        tries.append(1)
        if len(tries) < 6:
            raise KeyError("node-7")
        return explain(*arguments, **named)

    monkeypatch.setattr(explainer_module, "explain", failing)
    with caplog.at_level("INFO", "admission.controllers.report.explainer"):
        async with world(tmp_path, full_racks(), ExplanationLimits(first=0.0)) as here:
            here.reporter.waits(W, WaitReason("TopologyPlacementFailed", "no rack", {}))
            await eventually("the explanation", here.condition)
    logged = [record for record in caplog.records if "starts again" in record.message]
    assert {record.__dict__["missing"] for record in logged} == {"KeyError('node-7')"}
    assert [bool(record.exc_info) for record in logged] == [False, False, False, True, True]


async def test_that_it_cannot_run_comes_with_the_reason_before_any_explanation(tmp_path: Path) -> None:
    async with world(tmp_path, rack_too_small(), ExplanationLimits(first=3600.0)) as here:
        here.reporter.waits(W, WaitReason("TopologyPlacementFailed", "no rack", {}, never=True))
        said = await eventually("the verdict", here.condition)
        assert (said.reason, said.message) == ("CannotRun", NEVER)

        async def told() -> list[str]:
            return [e["message"] for e in (await here.kube.list(EVENTS, "ns")).items]

        events = await eventually("the event", lambda: _some(told))
        assert events == [f"no rack; {NEVER}"]


async def _some(told: Any) -> list[str] | None:
    return await told() or None


async def test_who_is_admitted_before_its_turn_is_not_explained(tmp_path: Path) -> None:
    cluster = full_racks()
    async with world(tmp_path, cluster, ExplanationLimits(first=0.2)) as here:
        here.reporter.waits(W, WaitReason("TopologyPlacementFailed", "no rack", {}))
        cluster.queues.remove(W)
        await eventually("the reason", lambda: _reason_written(here, "no rack"))

        async def explained() -> bool:
            return await here.condition() is not None

        await never("explained", explained, seconds=0.5)


def test_it_is_gone_once_quota_is_reserved() -> None:
    waiting = conditions.explained(WorkloadStatus(), "CannotRun", "because", 1.0)
    assert find_condition(waiting.conditions, EXPLANATION) is not None
    admitted = conditions.reserved(waiting, Admission(cluster_queue="q"), 2.0)
    assert find_condition(admitted.conditions, EXPLANATION) is None


@pytest.mark.parametrize(
    "make",
    [
        waiting_cases.evicting,
        waiting_cases.behind_a_reservation,
        waiting_cases.head_of_a_backfilled_queue,
        waiting_cases.gang_group,
        waiting_cases.pods_not_ready,
        waiting_cases.borrowing_limit,
        waiting_cases.fair_share,
    ],
    ids=lambda make: make.__name__,
)
async def test_status_and_events_say_of_every_claim_what_the_command_says(make: Any, tmp_path: Path) -> None:
    made = make()
    told = explain(made.cluster.ledger, made.workload, made.now, inputs=made.scene)
    async with world(tmp_path, made.cluster, ExplanationLimits(first=0.0), made) as here:
        here.reporter.waits(W, WaitReason(told.reason, told.message, {}))
        said = await eventually("the explanation", here.condition)
        assert (said.reason, said.message) == (code_of(told), headline(told))
        assert await eventually("the event", here.told) == [headline(told)]
        await eventually("the reason", lambda: _reason_written(here, told.message))


async def test_it_ends_at_once_when_the_process_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rest is long beside a large cluster: a controller that waited for it would keep its lease."""
    monkeypatch.setattr(explainer_module, "_BETWEEN_TURNS", 1e6)
    monkeypatch.setattr(explainer_module, "_TURN", 0.0)
    began = asyncio.Event()

    def marked(*arguments: Any, **named: Any) -> Explanation:
        loop.call_soon_threadsafe(began.set)
        return explain(*arguments, **named)

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(explainer_module, "explain", marked)
    async with asyncio.timeout(60), world(tmp_path, full_racks(), ExplanationLimits(first=0.0), rest=1e6) as here:
        here.reporter.waits(W, WaitReason("TopologyPlacementFailed", "no rack", {}))
        await began.wait()
