"""The next status of a Workload outside of the cycle."""

from __future__ import annotations

from typing import Any

import pytest

from admission.controllers import conditions
from admission.controllers.lifecycle import not_before, step
from admission.controllers.situation import Situation
from api.meta import find_condition, is_true
from api.names import ADMITTED, EVICTED, QUOTA_RESERVED, REQUEUED
from api.queues import ClusterQueue, LocalQueue
from api.workloads import Workload
from tests.builders import NOW, condition, workload


def local(stop: str = "None") -> LocalQueue:
    spec = {"clusterQueue": "cq", "stopPolicy": stop}
    return LocalQueue.from_wire({"metadata": {"name": "lq", "namespace": "ns"}, "spec": spec})


def target(stop: str = "None") -> ClusterQueue:
    return ClusterQueue.from_wire({"metadata": {"name": "cq"}, "spec": {"stopPolicy": stop}})


def situation(**changes: Any) -> Situation:
    usual: dict[str, Any] = {"local_queue": local(), "cluster_queue": target(), "cluster_queue_active": True}
    return Situation(**{**usual, **changes})


@pytest.mark.parametrize(
    ("wl", "where", "reason", "message"),
    [
        pytest.param(
            workload(), situation(local_queue=None), "Misconfigured", "LocalQueue lq doesn't exist", id="no-local-queue"
        ),
        pytest.param(
            workload(),
            situation(local_queue=local("Hold")),
            "Suspended",
            "LocalQueue lq is stopped",
            id="local-stopped",
        ),
        pytest.param(
            workload(), situation(cluster_queue=None), "Misconfigured", "ClusterQueue cq doesn't exist", id="no-queue"
        ),
        pytest.param(
            workload(),
            situation(cluster_queue=target("HoldAndDrain"), cluster_queue_active=False),
            "Suspended",
            "ClusterQueue cq is stopped",
            id="queue-stopped",
        ),
        pytest.param(
            workload(),
            situation(cluster_queue_active=False),
            "Misconfigured",
            "ClusterQueue cq is inactive",
            id="queue-inactive",
        ),
        pytest.param(
            workload(),
            situation(namespace_matches=False),
            "Misconfigured",
            "workload namespace doesn't match ClusterQueue selector",
            id="namespace",
        ),
        pytest.param(
            workload(spec={"active": False}),
            situation(),
            "Deactivated",
            "The workload is deactivated",
            id="deactivated",
        ),
        pytest.param(
            workload(metadata={"annotations": {"kueue.x-k8s.io/admission-gated-by": "a,b"}}),
            situation(),
            "AdmissionGated",
            "Admission is gated by: a,b",
            id="gated",
        ),
    ],
)
def test_what_keeps_a_workload_out_of_the_queue_is_said(
    wl: Workload, where: Situation, reason: str, message: str
) -> None:
    found = find_condition(step(wl, where, NOW).status.conditions, QUOTA_RESERVED)
    assert found is not None
    assert (found.status, found.reason, found.message) == ("False", reason, message)


def test_a_step_repeated_changes_nothing() -> None:
    where = situation(local_queue=None)
    once = step(workload(), where, NOW).status
    again = step(workload().model_copy(update={"status": once}), where, NOW + 60).status
    assert again.to_wire() == once.to_wire()


def test_a_reason_of_the_cycle_stays_until_the_next_cycle() -> None:
    waits = condition(QUOTA_RESERVED, "False", "TopologyPlacementFailed", "no rack is free")
    wl = workload(conditions=[waits])
    assert step(wl, situation(), NOW).status == wl.status


@pytest.mark.parametrize(
    ("wl", "where", "reason"),
    [
        pytest.param(workload(admitted=True, spec={"active": False}), situation(), "Deactivated", id="deactivated"),
        pytest.param(
            workload(admitted=True),
            situation(cluster_queue=target("HoldAndDrain")),
            "ClusterQueueStopped",
            id="queue-drained",
        ),
        pytest.param(
            workload(admitted=True),
            situation(local_queue=local("HoldAndDrain")),
            "LocalQueueStopped",
            id="local-drained",
        ),
    ],
)
def test_eviction_keeps_the_reservation_until_the_job_has_stopped(wl: Workload, where: Situation, reason: str) -> None:
    result = step(wl, where, NOW)
    found = find_condition(result.status.conditions, EVICTED)
    assert found is not None
    assert (found.status, found.reason) == ("True", reason)
    assert is_true(result.status.conditions, QUOTA_RESERVED)
    assert result.status.admission is not None
    assert result.eviction is not None
    assert result.eviction.event == f"EvictedDueTo{reason}"


def test_hold_keeps_what_runs() -> None:
    result = step(workload(admitted=True), situation(cluster_queue=target("Hold"), cluster_queue_active=False), NOW)
    assert not is_true(result.status.conditions, EVICTED)


def test_drained_workload_comes_back_when_its_queue_restarts() -> None:
    """Evicted, job stopped, reservation given back: it waits for the restart, then may queue again."""
    drained = step(workload(admitted=True), situation(cluster_queue=target("HoldAndDrain")), NOW).status
    wl = workload().model_copy(update={"status": conditions.released(drained, NOW + 1)})
    assert not is_true(wl.status.conditions, ADMITTED)
    assert not_before(wl) == float("inf")
    restarted = step(wl, situation(), NOW + 60).status
    found = find_condition(restarted.conditions, REQUEUED)
    assert found is not None
    assert (found.status, found.reason) == ("True", "ClusterQueueRestarted")
    assert not_before(wl.model_copy(update={"status": restarted})) == 0.0


def test_admitted_waits_for_the_checks_and_time_admitted_is_added_up() -> None:
    wl = workload(admitted=True)
    waiting = step(wl, situation(checks=("b", "a")), NOW + 30).status
    assert [check.name for check in waiting.admission_checks] == ["a", "b"]
    assert not is_true(waiting.conditions, ADMITTED)
    assert waiting.accumulated_past_execution_time_seconds == 30
    checks = tuple(check.model_copy(update={"state": "Ready"}) for check in waiting.admission_checks)
    ready = wl.model_copy(update={"status": waiting.model_copy(update={"admission_checks": checks})})
    assert is_true(step(ready, situation(checks=("a", "b")), NOW + 40).status.conditions, ADMITTED)
