"""What a PodGroup says of its gang."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from admission.controllers.pods.gangs.gang import GangTerms
from admission.controllers.pods.gangs.pod_group_status import next_status
from admission.controllers.pods.gangs.unbindable import held_members
from admission.integrations.pods.pod import PodMeta, QueuedPod
from api.groups import PodGroupStatus
from api.workloads import Workload

NOW = 1_000_000.0
TERMS = GangTerms("g", 2)
GATED = QueuedPod(PodMeta("p", "ns", "u", "1"), gated=True, phase="Pending", owner="trainer")
FREE = replace(GATED, gated=False)
BOUND = replace(FREE, bound=True)
RUNNING = replace(BOUND, phase="Running")
DONE, DEAD = replace(BOUND, phase="Succeeded"), replace(BOUND, phase="Failed")


def workload(admitted: bool, why: str = "") -> Workload:
    conditions: list[Any] = [
        {"type": "QuotaReserved", "status": str(admitted), "reason": "WaitingForQuota", "message": why},
        {"type": "Admitted", "status": str(admitted), "lastTransitionTime": "2026-01-01T00:00:00Z"},
    ]
    return Workload.from_wire({"metadata": {"name": "g", "namespace": "ns"}, "status": {"conditions": conditions}})


@pytest.mark.parametrize(
    ("pods", "of", "phase"),
    [
        pytest.param((), None, "Pending", id="no pods"),
        pytest.param((GATED,), None, "Pending", id="too few"),
        pytest.param((GATED, GATED), workload(False), "PreScheduling", id="enough"),
        pytest.param((FREE, FREE), workload(True), "Scheduling", id="let go"),
        pytest.param((BOUND, FREE), workload(True), "Scheduling", id="one is bound"),
        pytest.param((BOUND, BOUND), workload(True), "Scheduled", id="all are bound"),
        pytest.param((BOUND, RUNNING), workload(True), "Scheduled", id="one runs"),
        pytest.param((RUNNING, RUNNING), workload(True), "Running", id="all run"),
        pytest.param((RUNNING, DONE), workload(True), "Running", id="one is done"),
        pytest.param((DONE, DONE), workload(True), "Finished", id="all are done"),
        pytest.param((RUNNING, DEAD), workload(True), "Failed", id="one has failed"),
        pytest.param((RUNNING, RUNNING, DEAD), workload(True), "Running", id="one too many has failed"),
    ],
)
def test_phase(pods: tuple[QueuedPod, ...], of: Workload | None, phase: str) -> None:
    assert next_status(PodGroupStatus(), pods, of, TERMS, NOW).phase == phase


def test_a_gang_without_a_minimum_has_an_unknown_state() -> None:
    assert next_status(PodGroupStatus(), (GATED,), None, GangTerms("g", None), NOW).phase == "Unknown"


def test_a_member_that_something_else_holds_does_not_count_and_is_named() -> None:
    held = replace(GATED, metadata=PodMeta("late", "ns", "u-late", "1"), foreign_gate="example.com/later")
    pods = (GATED, held)
    status = next_status(PodGroupStatus(), pods, None, TERMS, NOW, held_members(pods, lambda key: None))
    message = "1 of 2 pods exist that nothing else holds: pod late has the scheduling gate example.com/later"
    assert (status.phase, [condition.message for condition in status.conditions]) == ("Pending", [message])


@pytest.mark.parametrize("last", ["Finished", "Failed"])
def test_an_end_is_remembered_when_the_pods_are_gone(last: str) -> None:
    assert next_status(PodGroupStatus(phase=last), (), None, TERMS, NOW).phase == last


def test_counts_owner_and_when_the_gates_were_opened() -> None:
    status = next_status(PodGroupStatus(), (RUNNING, BOUND, DONE, DEAD), workload(True), TERMS, NOW)
    assert (status.running, status.scheduled, status.succeeded, status.failed) == (1, 4, 1, 1)
    assert status.occupied_by == "ns/trainer"
    assert status.schedule_start_time == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("pods", "of", "message"),
    [
        pytest.param((GATED,), None, "1 of 2 pods exist", id="too few"),
        pytest.param((GATED, GATED), workload(False, "no quota for gpus"), "no quota for gpus", id="the queue's words"),
        pytest.param((FREE, FREE), workload(True), "the pods were started", id="started"),
    ],
)
def test_what_the_gang_waits_for_is_said(pods: tuple[QueuedPod, ...], of: Workload | None, message: str) -> None:
    (condition,) = next_status(PodGroupStatus(), pods, of, TERMS, NOW).conditions
    assert (condition.type, condition.message) == ("Started", message)
