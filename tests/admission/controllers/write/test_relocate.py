"""The write of a move onto a Workload that others have changed meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from admission.controllers.state import moving
from admission.controllers.watch.cluster_view import Views
from admission.controllers.write.admission_writer import AdmissionWriter
from admission.controllers.write.outcome import Outcome
from admission.engine.convert import convert_admissions
from api.annotations.moves import KEYS_OF_CLASSES
from api.kube.client import Kube, PatchKind
from api.kube.events import EventRecorder
from api.kube.informers.informer import Informer
from api.kube.resources import WORKLOADS
from api.meta import is_true
from api.names import EVICTED, FINISHED, HOSTNAME_LABEL, LAST_CHECKPOINT, MOVABLE, MOVING
from api.workloads import Workload
from tests.admission.controllers.installed_server import installed, small_workload

NOW = 1_800_000_000.0


@dataclass
class _WorkloadViews:
    """The part of the views that is looked through; it lags, as nothing watches."""

    workloads: Informer[Workload]


def admission(host: str) -> dict[str, Any]:
    placed = {"levels": [HOSTNAME_LABEL], "slices": [_slice(host)]}
    usage = {"flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "1"}, "count": 1}
    return {"clusterQueue": "q", "podSetAssignments": [{"name": "main", **usage, "topologyAssignment": placed}]}


def _slice(host: str) -> dict[str, Any]:
    return {"domainCount": 1, "podCounts": {"universal": 1}, "valuesPerLevel": [{"universal": host}]}


def condition(kind: str) -> dict[str, str]:
    return {"type": kind, "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-11-26T10:00:00Z"}


RUNS = [condition("QuotaReserved"), condition("Admitted")]


async def status(kube: Kube, **body: Any) -> None:
    await kube.patch(WORKLOADS, "w", {"status": body}, "ns", kind=PatchKind.MERGE, subresource="status")


async def annotated(kube: Kube, **annotations: str) -> None:
    await kube.patch(WORKLOADS, "w", {"metadata": {"annotations": annotations}}, "ns", kind=PatchKind.MERGE)


@contextlib.asynccontextmanager
async def running(folder: Path) -> AsyncIterator[tuple[Kube, Callable[[], Awaitable[str]]]]:
    """`ns/w` runs on `old`; the function writes its move to `new` as decided on what was seen at first."""
    async with installed(folder) as kube:
        made = small_workload("w")
        made["metadata"]["annotations"] = {MOVABLE: "true", LAST_CHECKPOINT: "2026-11-26T10:00:00Z"}
        await kube.create(WORKLOADS, made)
        await status(kube, admission=admission("old"), conditions=RUNS)
        views = _WorkloadViews(Informer(kube, WORKLOADS, Workload))
        watch = asyncio.create_task(views.workloads.run())
        await views.workloads.synced(60)
        watch.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watch
        seen = views.workloads.objects["ns/w"]
        there = Workload.from_wire({**seen.to_wire(), "status": {"admission": admission("new")}})
        assert there.status.admission is not None
        after = convert_admissions.from_status(there.status.admission, seen.spec, {})
        writer = AdmissionWriter(kube, cast("Views", views), EventRecorder(kube, "test"), lambda: NOW)
        yield kube, lambda: writer.relocate(after, seen, "for ns/gang", KEYS_OF_CLASSES)


async def found(kube: Kube) -> Workload:
    return await kube.get(WORKLOADS, "w", "ns", decode=Workload)


async def test_a_move_is_written_once_with_place_mark_and_count(tmp_path: Path) -> None:
    async with running(tmp_path) as (kube, move):
        assert [await move(), await move()] == [Outcome.WRITTEN] * 2
        workload = await found(kube)
        assert moving.is_moving(workload.status)
        assert "new" in str(workload.status.admission)
        assert workload.status.scheduling_stats is not None
        assert [one.count for one in workload.status.scheduling_stats.evictions] == [1]


CHANGES: dict[str, tuple[Callable[[Kube], Awaitable[Any]], str]] = {
    "finished": (lambda kube: status(kube, conditions=[*RUNS, condition(FINISHED)]), Outcome.LEFT),
    "evicted": (lambda kube: status(kube, conditions=[*RUNS, condition(EVICTED)]), Outcome.LEFT),
    "deleted": (lambda kube: kube.delete(WORKLOADS, "w", "ns"), Outcome.LEFT),
    "saved-its-work": (lambda kube: annotated(kube, **{LAST_CHECKPOINT: "2026-11-26T11:00:00Z"}), Outcome.WRITTEN),
    "forbidden": (lambda kube: annotated(kube, **{MOVABLE: "false"}), Outcome.CHANGED),
    "other-node": (lambda kube: status(kube, admission=admission("other")), Outcome.CHANGED),
}


@pytest.mark.parametrize(("change", "outcome"), CHANGES.values(), ids=CHANGES)
async def test_what_changed_meanwhile_decides(
    tmp_path: Path, change: Callable[[Kube], Awaitable[Any]], outcome: str
) -> None:
    async with running(tmp_path) as (kube, move):
        await change(kube)
        assert await move() == outcome
        if outcome != Outcome.WRITTEN and change is not CHANGES["deleted"][0]:
            assert not is_true((await found(kube)).status.conditions, MOVING)
