"""How often queues are told of when few change, and when many do."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path

import pytest

from admission.controllers.queues.queue_status import QueueController, patience
from admission.controllers.watch.cluster_view import Views
from admission.engine.ledger.ledger import Ledger
from admission.engine.queue.queues import PendingQueues
from api.kube.client import Kube, PatchKind
from api.kube.resources import (
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    WORKLOADS,
)
from api.names import API_VERSION
from api.queues import ClusterQueue, LocalQueue
from tests.admission.controllers.installed_server import installed, small_workload
from tests.scenarios.site import eventually


@pytest.mark.parametrize(
    ("period", "planned", "seconds"),
    [(1.0, 0, 1.0), (1.0, 20, 1.0), (1.0, 60, 3.0), (1.0, 2000, 10.0), (30.0, 2000, 30.0), (0.0, 2000, 0.0)],
    ids=["one queue", "as many as go in a period", "more", "never for ever", "a longer period holds", "at once"],
)
def test_a_status_waits_longer_where_many_queues_change(period: float, planned: int, seconds: float) -> None:
    assert patience(period, planned) == seconds


async def test_a_burst_of_workloads_costs_one_status_of_its_queue_in_a_period(tmp_path: Path) -> None:
    # Our own write comes back by the watch; looked at at once, it was followed by the next one without any pause.
    period, burst = 0.5, 150
    async with installed(tmp_path) as kube, contextlib.AsyncExitStack() as stack:
        queue = {"apiVersion": API_VERSION, "kind": "ClusterQueue", "metadata": {"name": "cq"}, "spec": {}}
        await kube.create(CLUSTER_QUEUES, queue)
        local = {"apiVersion": API_VERSION, "kind": "LocalQueue", "metadata": {"name": "lq", "namespace": "ns"}}
        await kube.create(LOCAL_QUEUES, {**local, "spec": {"clusterQueue": "cq"}})

        views, statuses = Views(kube), []
        views.local_queues.add_handler(lambda change: statuses.append(change.object.status))
        controller = QueueController(kube, views, PendingQueues(), Ledger().quota, period)
        for run in (*(i.run for i in views.all()), *(r.run for r in controller.reconcilers())):
            task = asyncio.create_task(run())
            stack.callback(task.cancel)
        await views.synced(60)

        async def pending() -> int:
            return (await kube.get(LOCAL_QUEUES, "lq", "ns", decode=LocalQueue)).status.pending_workloads

        async def counted(number: int) -> bool:
            return await pending() == number

        await eventually("the first status", lambda: _conditioned(kube))
        told, began = len(statuses), time.monotonic()
        for number in range(burst):
            await kube.create(WORKLOADS, small_workload(f"w{number}"))
        await eventually("all counted", lambda: counted(burst))
        assert len(statuses) - told <= (time.monotonic() - began) / period + 2


async def test_the_end_of_a_workload_reaches_its_cluster_queue_after_its_local_queue_was_deleted(
    tmp_path: Path,
) -> None:
    async with installed(tmp_path) as kube, contextlib.AsyncExitStack() as stack:
        made = {"apiVersion": API_VERSION, "kind": "ClusterQueue", "metadata": {"name": "cq"}, "spec": {}}
        await kube.create(CLUSTER_QUEUES, made)
        local = {"apiVersion": API_VERSION, "kind": "LocalQueue", "metadata": {"name": "lq", "namespace": "ns"}}
        await kube.create(LOCAL_QUEUES, {**local, "spec": {"clusterQueue": "cq"}})
        await kube.create(WORKLOADS, small_workload("w"))
        told = {"reason": "QuotaReserved", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        assignment = {"name": "main", "count": 1, "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "1"}}
        status = {
            "admission": {"clusterQueue": "cq", "podSetAssignments": [assignment]},
            "conditions": [{"type": "QuotaReserved", "status": "True", **told}],
        }
        await kube.patch(WORKLOADS, "w", {"status": status}, "ns", kind=PatchKind.MERGE, subresource="status")
        views = Views(kube)
        controller = QueueController(kube, views, PendingQueues(), Ledger().quota, 0.1)
        for run in (*(i.run for i in views.all()), *(r.run for r in controller.reconcilers())):
            task = asyncio.create_task(run())
            stack.callback(task.cancel)
        await views.synced(60)

        async def holds(number: int) -> bool:
            return (await kube.get(CLUSTER_QUEUES, "cq", decode=ClusterQueue)).status.reserving_workloads == number

        async def unseen() -> bool:
            seen = (await kube.get(CLUSTER_QUEUES, "cq", decode=ClusterQueue)).status.conditions
            planned = any(each.queue.planned for each in controller.reconcilers())
            return "ns/lq" not in views.local_queues.objects and bool(seen) and not planned

        await eventually("it holds one", lambda: holds(1))
        await kube.patch(LOCAL_QUEUES, "lq", {"metadata": {"finalizers": None}}, "ns", kind=PatchKind.MERGE)
        await kube.delete(LOCAL_QUEUES, "lq", "ns")
        await eventually("the LocalQueue is gone", unseen)
        await kube.delete(WORKLOADS, "w", "ns")
        await eventually("it holds none", lambda: holds(0), seconds=20)


async def _conditioned(kube: Kube) -> bool:
    return bool((await kube.get(LOCAL_QUEUES, "lq", "ns", decode=LocalQueue)).status.conditions)
