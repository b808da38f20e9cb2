"""What is counted of a workload's life: each stage once, when it comes, and only while this process leads."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest
from prometheus_client import REGISTRY

from admission.controllers.report.lifecycle_metrics import LifecycleMetrics, living
from admission.controllers.watch.cluster_view import ClusterView
from api.kube import owned_series
from api.kube.informers.store import Change, ChangeType, Store
from api.meta import rfc3339
from api.queues import ClusterQueue, Cohort, LocalQueue
from api.workloads import Workload
from tests.builders import NOW, workload

QUEUE = {"cluster_queue": "cq", "priority_class": ""}
LOCAL = {"name": "lq", "namespace": "ns", "priority_class": ""}


def at(second: int, kind: str, status: str = "True", reason: str = "") -> dict[str, Any]:
    moment = rfc3339(NOW + second)
    return {"type": kind, "status": status, "reason": reason or kind, "message": "", "lastTransitionTime": moment}


def shown(*conditions: dict[str, Any], admitted: bool = True, evictions: Sequence[dict[str, Any]] = ()) -> Workload:
    made = workload(admitted=admitted, metadata={"creationTimestamp": rfc3339(NOW)}).to_wire()
    status: dict[str, Any] = {**made.get("status", {}), "conditions": list(conditions)}
    if evictions:
        status["schedulingStats"] = {"evictions": list(evictions)}
    return Workload.from_wire({**made, "status": status})


class WatchedMetrics:
    """The views, of which only these are looked at; the clock."""

    def __init__(self) -> None:
        self.workloads: Store[Workload] = Store("workloads")
        self.cluster_queues: Store[ClusterQueue] = Store("clusterqueues")
        self.cohorts: Store[Cohort] = Store("cohorts")
        self.local_queues: Store[LocalQueue] = Store("localqueues")
        self.now = NOW
        self.cluster_queues.upsert(
            ClusterQueue.from_wire({"metadata": {"name": "cq"}, "spec": {"cohortName": "team-lives"}})
        )
        self.lives = LifecycleMetrics(cast("ClusterView", self), now=lambda: self.now)

    def see(self, second: int, old: Workload, new: Workload) -> Workload:
        self.now = NOW + second
        self.lives._changed(Change(ChangeType.MODIFIED, new.key, new, old))
        return new


def value(name: str, labels: dict[str, str]) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


async def leading(watched: WatchedMetrics) -> asyncio.Task[None]:
    task = asyncio.create_task(watched.lives.run())
    await asyncio.sleep(0)
    return task


STAGES = [
    "quota_reserved_wait_time_seconds", "admission_wait_time_seconds", "admission_checks_wait_time_seconds",
    "ready_wait_time_seconds", "admitted_until_ready_wait_time_seconds", "execution_time_seconds",
]  # fmt: skip


def local_sums() -> dict[str, float]:
    return {name: value(f"kueue_local_queue_{name}_sum", LOCAL) for name in STAGES}


async def test_each_stage_is_counted_once_with_the_time_it_took() -> None:
    watched = WatchedMetrics()
    task = await leading(watched)
    before, admitted = local_sums(), value("kueue_cohort_subtree_admitted_workloads_total",
                                           {"cohort": "team-lives", "priority_class": ""})  # fmt: skip
    finished = value("kueue_finished_workloads_total", QUEUE)
    seen = shown(admitted=False)
    seen = watched.see(5, seen, shown(at(5, "QuotaReserved")))
    running = (at(5, "QuotaReserved"), at(9, "Admitted"))
    seen = watched.see(9, seen, shown(*running))
    seen = watched.see(9, seen, shown(*running))
    seen = watched.see(20, seen, shown(*running, at(20, "PodsReady", reason="Started")))
    seen = watched.see(30, seen, shown(*running, at(30, "PodsReady", "False", "WaitForRecovery")))
    seen = watched.see(31, seen, shown(*running, at(31, "PodsReady", reason="Recovered")))
    watched.see(50, seen, shown(*running, at(31, "PodsReady", reason="Recovered"), at(50, "Finished")))
    spent = {name: after - before[name] for name, after in local_sums().items()}
    assert list(spent.values()) == [5, 9, 4, 20, 11, 41]
    assert value("kueue_finished_workloads_total", QUEUE) == finished + 1
    cohort = {"cohort": "team-lives", "priority_class": ""}
    assert value("kueue_cohort_subtree_admitted_workloads_total", cohort) == admitted + 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    watched.see(60, shown(*running), shown(*running, at(50, "Finished")))
    assert value("kueue_finished_workloads_total", QUEUE) == finished + 1, "another process leads now"


async def test_an_eviction_with_its_cause_and_how_long_it_took() -> None:
    watched = WatchedMetrics()
    task = await leading(watched)
    why = {"reason": "PodsReadyTimeout", "underlying_cause": "WaitForRecovery"}
    local = {**LOCAL, **why}
    ready, latency = {"cluster_queue": "cq", **why}, {"cluster_queue": "cq", "reason": "PodsReadyTimeout"}
    before = (
        value("kueue_local_queue_evicted_workloads_total", local),
        value("kueue_pods_ready_to_evicted_time_seconds_sum", ready),
        value("kueue_workload_eviction_latency_seconds_sum", latency),
    )
    running = (at(0, "QuotaReserved"), at(0, "Admitted"), at(3, "PodsReady", reason="Started"))
    counted = [{"reason": why["reason"], "underlyingCause": why["underlying_cause"], "count": 1}]
    evicted = shown(*running, at(10, "Evicted", reason="PodsReadyTimeout"), evictions=counted)
    watched.see(10, shown(*running), evicted)
    released = (at(14, "QuotaReserved", "False"), at(14, "Admitted", "False"))
    watched.see(14, evicted, shown(*released, at(10, "Evicted", reason="PodsReadyTimeout"), admitted=False))
    after = (
        value("kueue_local_queue_evicted_workloads_total", local),
        value("kueue_pods_ready_to_evicted_time_seconds_sum", ready),
        value("kueue_workload_eviction_latency_seconds_sum", latency),
    )
    assert [b - a for a, b in zip(before, after, strict=True)] == [1, 7, 4]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_what_was_there_before_is_not_counted() -> None:
    watched = WatchedMetrics()
    finished = value("kueue_finished_workloads_total", QUEUE)
    watched.lives._changed(Change(ChangeType.ADDED, "ns/wl", shown(at(0, "Finished")), None))
    assert value("kueue_finished_workloads_total", QUEUE) == finished


async def test_what_was_counted_of_a_queue_goes_with_it() -> None:
    watched = WatchedMetrics()
    watched.local_queues.upsert(LocalQueue.from_wire({"metadata": {"name": "lq", "namespace": "ns"}}))
    task = await leading(watched)
    cohort = {"cohort": "team-lives", "priority_class": ""}
    watched.see(5, shown(admitted=False), shown(at(5, "QuotaReserved"), at(5, "Admitted")))
    counted = (
        ("kueue_local_queue_admitted_workloads_total", LOCAL),
        ("kueue_admission_wait_time_seconds_count", QUEUE),
        ("kueue_cohort_subtree_admitted_workloads_total", cohort),
    )

    def left() -> list[str]:
        owned_series.keep_only(living(cast("ClusterView", watched)))
        return [name for name, labels in counted if REGISTRY.get_sample_value(name, labels) is not None]

    assert len(left()) == len(counted)
    watched.local_queues.delete_key("ns/lq")
    assert len(left()) == len(counted) - 1
    watched.cluster_queues.delete_key("cq")
    assert left() == []
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
