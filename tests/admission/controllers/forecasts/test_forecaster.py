"""The expected start in a waiting Workload's status."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from admission.controllers.forecasts.forecaster import Forecaster, ForecastLimits
from admission.controllers.forecasts.forecaster import expected_start as told_status
from admission.controllers.forecasts.run_time_keeper import RunTimeKeeper
from admission.controllers.state import conditions
from admission.controllers.watch.cluster_view import Views
from admission.engine.features.forecast.calibration import Calibration, Calibrations, StartForecast
from admission.engine.features.forecast.wording import wording
from admission.engine.model import Flavor
from admission.world.workload_facts import expected_start
from api.kube.client import Kube, PatchKind
from api.kube.events import EventRecorder
from api.kube.informers.informer import Informer
from api.kube.resources import WORKLOADS
from api.meta import Condition, find_condition, is_true, rfc3339
from api.names import EXPECTED_START, QUOTA_RESERVED
from api.workloads import Admission, Workload, WorkloadStatus
from tests.admission.controllers.installed_server import installed, small_workload
from tests.admission.engine.builders import Cluster, queue, workload
from tests.admission.engine.features.forecast.known import CERTAIN
from tests.api.kube.clock import until
from tests.scenarios.site import eventually

NOW = float(int(time.time()))
LIMIT = 600.0


@dataclass
class _ForecasterViews:
    """The part of the views that is looked through."""

    workloads: Informer[Workload]


@dataclass
class ForecasterSetup:
    """A full cluster: `ns/r` runs up to its limit and `ns/w` waits behind it."""

    kube: Kube
    cluster: Cluster
    views: _ForecasterViews
    forecaster: Forecaster
    learned: RunTimeKeeper
    now: float = NOW

    async def condition(self, name: str = "w") -> Condition | None:
        """The expected start in the API server's copy."""
        found = await self.kube.get(WORKLOADS, name, "ns", decode=Workload)
        return find_condition(found.status.conditions, EXPECTED_START)

    async def version(self) -> str | None:
        """The resource version of `ns/w`."""
        return (await self.kube.get(WORKLOADS, "w", "ns", decode=Workload)).metadata.resource_version


def _cluster(limit: float | None = LIMIT) -> Cluster:
    made = Cluster(Flavor("f"), queue(f=1), replace(workload("ns/r"), time_limit=limit))
    made.cycle()
    running = made.ledger.workload("ns/r")
    assert running is not None
    made.tell(replace(running, admitted=NOW), workload("ns/w", queued=NOW - 60))
    return made


@contextlib.asynccontextmanager
async def site(folder: Path, *finished: dict[str, Any], limit: float | None = LIMIT) -> AsyncIterator[ForecasterSetup]:
    """The API server has `ns/w` and the finished Workloads; the forecaster has seen them."""
    async with installed(folder) as kube, contextlib.AsyncExitStack() as stack:
        for each in (small_workload("w"), *finished):
            made = await kube.create(WORKLOADS, each)
            if "status" in each:
                await kube.patch(
                    WORKLOADS,
                    made["metadata"]["name"],
                    {"status": each["status"]},
                    "ns",
                    kind=PatchKind.MERGE,
                    subresource="status",
                )
        views = _ForecasterViews(Informer(kube, WORKLOADS, Workload))
        cluster = _cluster(limit)
        here: list[ForecasterSetup] = []
        limits = ForecastLimits(first=5.0)

        def now() -> float:
            return here[0].now if here else NOW

        learned = RunTimeKeeper(kube, EventRecorder(kube, "stowage"), "stowage-system", 300.0, now)
        forecaster = Forecaster(kube, cast("Views", views), cluster.ledger, cluster.queues, learned, limits, now)
        learned.calibrations = CERTAIN
        here.append(ForecasterSetup(kube, cluster, views, forecaster, learned))
        task = asyncio.create_task(views.workloads.run())
        stack.callback(task.cancel)
        await views.workloads.synced(60)
        yield here[0]


async def test_a_waiting_workload_is_told_once_and_again_only_when_it_moves(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        await here.forecaster.round()
        told = await here.condition()
        assert told is not None
        assert told.message == wording(StartForecast(NOW, NOW + LIMIT, CERTAIN.of("q", placed=False).confidence))
        before = await here.version()
        here.now = NOW + 30
        await here.forecaster.round()
        assert await here.version() == before
        running = here.cluster.ledger.workload("ns/r")
        assert running is not None
        here.cluster.tell(replace(running, time_limit=5 * LIMIT))
        await here.forecaster.round()
        assert await here.version() != before


@pytest.mark.parametrize(
    ("held", "says"),
    [
        pytest.param(32, ", with 81% confidence", id="the measured confidence"),
        pytest.param(28, "or later; no latest start is known", id="too seldom"),
    ],
)
async def test_what_was_measured_meanwhile_is_told(tmp_path: Path, held: int, says: str) -> None:
    async with site(tmp_path) as here:
        await here.forecaster.round()
        first = await here.condition()
        assert first is not None
        assert first.message.endswith(", with 99% confidence")
        record = Calibration(held=tuple(number < held for number in range(40)))
        here.learned.calibrations = Calibrations({("q", False): record})
        await here.forecaster.round()
        told = await here.condition()
        assert told is not None
        assert told.message.endswith(says)


async def test_what_is_no_longer_expected_is_no_longer_told(tmp_path: Path) -> None:
    """Also after a restart: the new process has written nothing yet."""
    async with site(tmp_path) as here:
        await here.forecaster.round()
        assert await here.condition() is not None
        running = here.cluster.ledger.workload("ns/r")
        assert running is not None
        here.cluster.tell(replace(running, time_limit=None))
        await here.forecaster.round()
        assert await here.condition() is None, "nothing is known of the workload ahead"


async def test_a_latest_start_that_has_passed_keeps_no_moves_away(tmp_path: Path) -> None:
    """Else a forecast that is wrong in the same way each time would forbid moves for ever."""
    async with site(tmp_path) as here:
        await here.forecaster.round()
        assert here.forecaster.latest_start("ns/w") == NOW + LIMIT
        running = here.cluster.ledger.workload("ns/r")
        assert running is not None
        here.cluster.tell(replace(running, time_limit=5 * LIMIT))
        here.now = NOW + 60
        await here.forecaster.round()
        assert here.forecaster.latest_start("ns/w") == NOW + 5 * LIMIT
        here.now = NOW + LIMIT + 1
        await here.forecaster.round()
        assert here.forecaster.latest_start("ns/w") is None
        assert here.forecaster.latest_start("ns/unknown") is None


async def _starts_a_day_later(here: ForecasterSetup) -> Calibrations:
    """Returns how well forecasts held once `ns/w` has quota."""
    here.now = NOW + 86_400
    condition = {"type": QUOTA_RESERVED, "status": "True", "reason": QUOTA_RESERVED, "message": ""}
    status = {"conditions": [condition | {"lastTransitionTime": rfc3339(here.now)}]}
    await here.kube.patch(WORKLOADS, "w", {"status": status}, "ns", kind=PatchKind.MERGE, subresource="status")
    await until(lambda: is_true(here.views.workloads.objects["ns/w"].status.conditions, QUOTA_RESERVED))
    return here.learned.calibrations


async def test_one_that_still_waits_when_its_interval_is_over_counts_once(tmp_path: Path) -> None:
    """Under overload the starts that come late are known too late."""
    async with site(tmp_path) as here:
        await here.forecaster.round()
        for _ in range(3):
            here.now += 10 * LIMIT
            await here.forecaster.round()
        assert here.learned.calibrations.of("q", placed=False).held.count(False) == 1
        assert (await _starts_a_day_later(here)).of("q", placed=False).held.count(False) == 1


async def test_a_start_that_came_late_is_compared(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        await here.forecaster.round()
        assert max((await _starts_a_day_later(here)).of("q", placed=False).late) > 1


async def test_a_workload_that_its_user_had_stopped_widens_no_interval(tmp_path: Path) -> None:
    """Three of them would be enough for the intervals of all queues."""
    async with site(tmp_path) as here:
        await here.forecaster.round()
        here.cluster.queues.remove("ns/w")
        await here.forecaster.round()
        assert await _starts_a_day_later(here) == CERTAIN


async def test_a_workload_whose_spec_changed_widens_no_interval(tmp_path: Path) -> None:
    """Such as of a user who deactivates it between two forecasts each time."""
    async with site(tmp_path) as here:
        await here.forecaster.round()
        for active in (False, True):
            await here.kube.patch(WORKLOADS, "w", {"spec": {"active": active}}, "ns", kind=PatchKind.MERGE)
            await until(partial(_is_active, here, active))
        assert await _starts_a_day_later(here) == CERTAIN


def _is_active(here: ForecasterSetup, active: bool) -> bool:
    return here.views.workloads.objects["ns/w"].spec.active is active


async def test_one_that_has_just_come_is_not_told(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        here.cluster.tell(workload("ns/w", queued=NOW - 1))
        await here.forecaster.round()
        assert await here.condition() is None


def _finished(name: str, seconds: float) -> dict[str, Any]:
    def condition(kind: str, at: float) -> dict[str, Any]:
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
        return {"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": when}

    states = [condition("Admitted", NOW - 9000), condition("Finished", NOW - 9000 + seconds)]
    return {**small_workload(name), "status": {"conditions": states}}


async def test_after_a_restart_it_learns_from_those_that_have_finished(tmp_path: Path) -> None:
    runs = [_finished(f"job-train-{n}", 300.0) for n in range(25)]
    async with site(tmp_path, *runs, limit=None) as here:
        await here.forecaster.round()
        told = await eventually("the expected start", here.condition)
        assert told.message == wording(StartForecast(NOW + 300, NOW + 300, CERTAIN.of("q", placed=False).confidence))


async def test_a_run_that_ended_before_it_began_teaches_nothing(tmp_path: Path) -> None:
    async with site(tmp_path, _finished("job-train-1", -300.0), limit=None) as here:
        await here.forecaster.round()
        assert await here.condition() is None


async def test_a_workload_that_is_gone_does_not_stop_the_others(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        here.cluster.tell(replace(workload("ns/gone", queued=NOW - 90), time_limit=60.0))
        await here.forecaster.round()
        assert await here.condition() is not None


def test_quota_takes_the_expected_start_away() -> None:
    told = told_status(WorkloadStatus(), "soon", NOW)
    reserved = conditions.reserved(told, Admission(cluster_queue="q", pod_set_assignments=()), NOW)
    assert find_condition(told.conditions, EXPECTED_START) is not None
    assert find_condition(reserved.conditions, EXPECTED_START) is None


@pytest.mark.parametrize(
    ("latest", "text"),
    [
        pytest.param(
            60.0, "between 1970-01-01T00:00:01Z and 1970-01-01T00:01:00Z, with 90% confidence", id="an interval"
        ),
        pytest.param(None, "at 1970-01-01T00:00:01Z or later; no latest start is known", id="no latest"),
        pytest.param(1e300, "between 1970-01-01T00:00:01Z and 9999-12-31T23:59:59Z, with 90% confidence", id="absurd"),
    ],
)
def test_the_message(latest: float | None, text: str) -> None:
    assert wording(StartForecast(1.5, latest, 0.9)) == f"expected to start {text}"
    told = told_status(WorkloadStatus(), wording(StartForecast(1.5, latest, 0.9)), NOW)
    assert expected_start(Workload(status=told)).text == f"expected to start {text}", "others show it as it was written"
