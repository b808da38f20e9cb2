"""The next status of a Workload outside of the cycle."""

from __future__ import annotations

from typing import Any

import pytest

from admission.controllers.state import conditions
from admission.controllers.state.admission_context import AdmissionContext, blocker
from admission.controllers.state.evictions import Eviction, evicted
from admission.controllers.state.lifecycle import LifecycleRules, not_before, step
from admission.integrations.owners import managed_kinds
from api.meta import find_condition, is_true
from api.names import ADMITTED, BLOCKED_ON_PREEMPTION_GATES, EVICTED, PREEMPTED, QUOTA_RESERVED, REQUEUED
from api.queues import ClusterQueue, LocalQueue
from api.workloads import Workload
from tests.builders import NOW, condition, workload


def local(stop: str = "None") -> LocalQueue:
    spec = {"clusterQueue": "cq", "stopPolicy": stop}
    return LocalQueue.from_wire({"metadata": {"name": "lq", "namespace": "ns"}, "spec": spec})


def target(stop: str = "None") -> ClusterQueue:
    return ClusterQueue.from_wire({"metadata": {"name": "cq"}, "spec": {"stopPolicy": stop}})


def context(**changes: Any) -> AdmissionContext:
    usual: dict[str, Any] = {"local_queue": local(), "cluster_queue": target(), "cluster_queue_active": True}
    return AdmissionContext(**{**usual, **changes})


def owner(api_version: str, kind: str, **changes: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "name": "train", "uid": "u", "controller": True, **changes}


@pytest.mark.parametrize(
    "owners",
    [
        pytest.param([], id="made in advance, not taken yet"),
        pytest.param([owner("batch/v1", "Job")], id="a Job"),
        pytest.param([owner("jobset.x-k8s.io/v1alpha2", "JobSet")], id="a JobSet"),
        pytest.param([owner("v1", "Pod", controller=False)], id="members of a pod group"),
        pytest.param(
            [owner("scheduler.grove.io/v1alpha1", "PodGang"), owner("v1", "Pod", controller=False)],
            id="made in advance, taken by a pod group",
        ),
    ],
)
def test_a_workload_of_a_managed_owner_queues(owners: list[dict[str, Any]]) -> None:
    assert blocker(workload(metadata={"ownerReferences": owners}), context()) is None


@pytest.mark.parametrize(
    ("wl", "where", "reason", "message"),
    [
        pytest.param(
            workload(), context(local_queue=None), "Misconfigured", "LocalQueue lq doesn't exist", id="no-local-queue"
        ),
        pytest.param(
            workload(),
            context(local_queue=local("Hold")),
            "Suspended",
            "LocalQueue lq is inactive",
            id="local-stopped",
        ),
        pytest.param(
            workload(), context(cluster_queue=None), "Misconfigured", "ClusterQueue cq doesn't exist", id="no-queue"
        ),
        pytest.param(
            workload(),
            context(cluster_queue=target("HoldAndDrain"), cluster_queue_active=False),
            "Suspended",
            "ClusterQueue cq is inactive",
            id="queue-stopped",
        ),
        pytest.param(
            workload(),
            context(cluster_queue_active=False),
            "Suspended",
            "ClusterQueue cq is inactive",
            id="queue-inactive",
        ),
        pytest.param(
            workload(),
            context(namespace_matches=False),
            "Misconfigured",
            "workload namespace doesn't match ClusterQueue selector",
            id="namespace",
        ),
        pytest.param(
            workload(metadata={"ownerReferences": [owner("example.com/v1", "Crane")]}),
            context(),
            "OwnerNotManaged",
            "example.com/v1 Crane train owns this Workload, and Stowage does not manage its kind; it manages "
            + ", ".join(managed_kinds()),
            id="owner-not-managed",
        ),
        pytest.param(
            workload(metadata={"ownerReferences": [owner("example.com/v1", "Job")]}),
            context(),
            "OwnerNotManaged",
            "example.com/v1 Job train owns this Workload, and Stowage does not manage its kind; it manages "
            + ", ".join(managed_kinds()),
            id="a-kind-of-the-same-name-in-another-group",
        ),
        pytest.param(
            workload(spec={"active": False}),
            context(),
            "Deactivated",
            "The workload is deactivated",
            id="deactivated",
        ),
        pytest.param(
            workload(metadata={"annotations": {"kueue.x-k8s.io/admission-gated-by": "a,b"}}),
            context(),
            "AdmissionGated",
            "Admission is gated by: a,b",
            id="gated",
        ),
    ],
)
def test_what_keeps_a_workload_out_of_the_queue_is_said(
    wl: Workload, where: AdmissionContext, reason: str, message: str
) -> None:
    found = find_condition(step(wl, where, NOW).status.conditions, QUOTA_RESERVED)
    assert found is not None
    assert (found.status, found.reason, found.message) == ("False", reason, message)


def test_a_step_repeated_changes_nothing() -> None:
    where = context(local_queue=None)
    once = step(workload(), where, NOW).status
    again = step(workload().model_copy(update={"status": once}), where, NOW + 60).status
    assert again.to_wire() == once.to_wire()


def test_a_reason_of_the_cycle_stays_until_the_next_cycle() -> None:
    waits = condition(QUOTA_RESERVED, "False", "TopologyPlacementFailed", "no rack is free")
    wl = workload(conditions=[waits])
    status = step(wl, context(), NOW).status
    assert find_condition(status.conditions, QUOTA_RESERVED) == find_condition(wl.status.conditions, QUOTA_RESERVED)
    again = wl.model_copy(update={"status": status})
    assert step(again, context(), NOW + 1).status is status


@pytest.mark.parametrize(
    ("wl", "where", "reason"),
    [
        pytest.param(workload(admitted=True, spec={"active": False}), context(), "Deactivated", id="deactivated"),
        pytest.param(
            workload(admitted=True),
            context(cluster_queue=target("HoldAndDrain")),
            "ClusterQueueStopped",
            id="queue-drained",
        ),
        pytest.param(
            workload(admitted=True),
            context(local_queue=local("HoldAndDrain")),
            "LocalQueueStopped",
            id="local-drained",
        ),
    ],
)
def test_eviction_keeps_the_reservation_until_the_job_has_stopped(
    wl: Workload, where: AdmissionContext, reason: str
) -> None:
    result = step(wl, where, NOW)
    found = find_condition(result.status.conditions, EVICTED)
    assert found is not None
    assert (found.status, found.reason) == ("True", reason)
    assert is_true(result.status.conditions, QUOTA_RESERVED)
    assert result.status.admission is not None
    assert result.eviction is not None
    assert result.eviction.event == f"EvictedDueTo{reason}"


def test_hold_keeps_what_runs() -> None:
    result = step(workload(admitted=True), context(cluster_queue=target("Hold"), cluster_queue_active=False), NOW)
    assert not is_true(result.status.conditions, EVICTED)


def test_drained_workload_comes_back_when_its_queue_restarts() -> None:
    """Evicted, job stopped, reservation given back: it waits for the restart, then may queue again."""
    drained = step(workload(admitted=True), context(cluster_queue=target("HoldAndDrain")), NOW).status
    wl = workload().model_copy(update={"status": conditions.released(drained, NOW + 1)})
    assert not is_true(wl.status.conditions, ADMITTED)
    assert not_before(wl, context(cluster_queue=target("HoldAndDrain"))) == float("inf")
    assert not_before(wl, context()) == 0.0, "not later than those that waited all the time"
    restarted = step(wl, context(), NOW + 60).status
    found = find_condition(restarted.conditions, REQUEUED)
    assert found is not None
    assert (found.status, found.reason) == ("True", "ClusterQueueRestarted")
    assert not_before(wl.model_copy(update={"status": restarted}), context()) == 0.0


def test_admitted_waits_for_the_checks_and_time_admitted_is_added_up() -> None:
    wl = workload(admitted=True)
    waiting = step(wl, context(checks=("b", "a")), NOW + 30).status
    assert [check.name for check in waiting.admission_checks] == ["a", "b"]
    assert not is_true(waiting.conditions, ADMITTED)
    assert waiting.accumulated_past_execution_time_seconds == 30
    checks = tuple(check.model_copy(update={"state": "Ready"}) for check in waiting.admission_checks)
    ready = wl.model_copy(update={"status": waiting.model_copy(update={"admission_checks": checks})})
    assert is_true(step(ready, context(checks=("a", "b")), NOW + 40).status.conditions, ADMITTED)


@pytest.mark.parametrize(
    ("changes", "reason", "message"),
    [
        pytest.param({"cluster_queue": target("Hold")}, "Suspended", "ClusterQueue cq is stopped", id="held"),
        pytest.param({"local_queue": local("Hold")}, "Suspended", "LocalQueue lq is stopped", id="local-held"),
        pytest.param({"cluster_queue": None}, "Misconfigured", "ClusterQueue cq is terminating or missing", id="gone"),
        pytest.param(
            {"local_queue": None}, "Misconfigured", "LocalQueue lq is terminating or missing", id="local-gone"
        ),
    ],
)
def test_a_queue_on_hold_takes_the_quota_of_reserving_but_not_of_running_workloads(
    changes: dict[str, Any], reason: str, message: str
) -> None:
    assert step(workload(admitted=True), context(**changes), NOW).eviction is None
    check = {"name": "c", "state": "Pending", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    waits = workload(admitted=True, status={"admissionChecks": [check]})
    gone = step(waits, context(checks=("c",), **changes), NOW)
    assert gone.eviction is None
    assert gone.status.admission is None
    reserved = find_condition(gone.status.conditions, QUOTA_RESERVED)
    assert reserved is not None
    assert (reserved.status, reserved.reason, reserved.message) == ("False", reason, message)
    assert not is_true(gone.status.conditions, ADMITTED)


def test_a_workload_is_deactivated_and_taken_back_by_its_user() -> None:
    off = step(workload(admitted=True, spec={"active": False}, status={"requeueState": {"count": 3}}), context(), NOW)
    assert off.eviction == Eviction("Deactivated", "The workload is deactivated")
    assert off.status.requeue_state is None
    stopped = conditions.released(off.status, NOW + 1)
    resting = workload(spec={"active": False}).model_copy(update={"status": stopped})
    rests = step(resting, context(), NOW + 2).status
    found = find_condition(rests.conditions, QUOTA_RESERVED)
    assert found is not None
    assert (found.reason, found.message) == ("Deactivated", "The workload is deactivated")
    back = step(workload().model_copy(update={"status": rests}), context(), NOW + 60).status
    requeued, waits = find_condition(back.conditions, REQUEUED), find_condition(back.conditions, QUOTA_RESERVED)
    assert requeued is not None
    assert waits is not None
    assert (requeued.status, requeued.reason) == ("True", "Reactivated")
    assert waits.reason == "PendingEvaluation"


@pytest.mark.parametrize(
    ("decided", "reason"),
    [
        pytest.param("Misconfigured", "Misconfigured", id="for which the latest cycle lets it wait"),
        pytest.param(None, "PendingEvaluation", id="that blocked it before"),
    ],
)
def test_a_reason_stays_while_it_holds(decided: str | None, reason: str) -> None:
    status = conditions.waiting(workload().status, "Misconfigured", "a LimitRange", {}, NOW)
    waits = step(workload().model_copy(update={"status": status}), context(decided=decided), NOW + 1).status
    found = find_condition(waits.conditions, QUOTA_RESERVED)
    assert found is not None
    assert found.reason == reason


def test_deactivating_what_is_being_evicted_keeps_the_reason_of_the_eviction() -> None:
    drained = step(workload(admitted=True), context(cluster_queue=target("HoldAndDrain")), NOW).status
    off = workload(spec={"active": False}).model_copy(update={"status": drained})
    assert step(off, context(), NOW + 1).eviction is None


def test_what_stowage_deactivates_while_it_is_evicted_tells_the_later_reason() -> None:
    drained = step(workload(admitted=True), context(cluster_queue=target("HoldAndDrain")), NOW).status
    aimed = conditions.deactivating(drained, "MaximumExecutionTimeExceeded", "it ran too long", NOW)
    off = workload(spec={"active": False}).model_copy(update={"status": aimed})
    eviction = step(off, context(), NOW + 1).eviction
    assert eviction is not None
    assert eviction.event == "EvictedDueToDeactivatedDueToMaximumExecutionTimeExceeded"


def test_a_gate_is_reported_when_it_closes_and_when_it_opens() -> None:
    gated = workload(metadata={"annotations": {"kueue.x-k8s.io/admission-gated-by": "a"}})
    closed = step(gated, context(), NOW)
    assert [(o.reason, o.message) for o in closed.events] == [("AdmissionGated", "Workload admission is gated by: a")]
    still = gated.model_copy(update={"status": closed.status})
    assert step(still, context(), NOW + 1).events == ()
    opened = step(workload().model_copy(update={"status": closed.status}), context(), NOW + 2)
    assert [o.reason for o in opened.events] == ["AdmissionGateCleared"]
    found = find_condition(opened.status.conditions, QUOTA_RESERVED)
    assert found is not None
    assert (found.reason, found.message) == (
        "PendingEvaluation",
        "AdmissionGatedBy cleared, waiting for quota reservation",
    )


@pytest.mark.parametrize(
    ("kept", "later", "again", "deleted"),
    [
        pytest.param(None, 10**9, None, False, id="for-ever"),
        pytest.param(60.0, 10, 50.0, False, id="not-yet"),
        pytest.param(60.0, 60, None, True, id="long-enough"),
        pytest.param(0.0, 0, None, True, id="at-once"),
    ],
)
def test_finished_workloads_are_kept_as_long_as_the_settings_say(
    kept: float | None, later: float, again: float | None, deleted: bool
) -> None:
    result = step(
        workload(conditions=[condition("Finished")]), context(), NOW + later, LifecycleRules(finished_kept=kept)
    )
    assert (result.again_in, result.delete) == (again, deleted)
    assert [o.reason for o in result.events] == (["Deleted"] if deleted else [])


@pytest.mark.parametrize(
    ("position", "blocked", "reason"),
    [
        pytest.param("Closed", "True", "AdmissionGated", id="closed"),
        pytest.param("Open", "False", "PendingEvaluation", id="open"),
    ],
)
def test_a_gate_that_is_opened_holds_it_no_more(position: str, blocked: str, reason: str) -> None:
    wl = workload(
        spec={"preemptionGates": [{"name": "g"}]},
        conditions=[
            condition(QUOTA_RESERVED, "False", reason="AdmissionGated", message="gated"),
            condition(BLOCKED_ON_PREEMPTION_GATES, reason="PreemptionGated", message="gated"),
        ],
        status={"preemptionGates": [{"name": "g", "position": position}]},
    )
    after = step(wl, context(), NOW)
    said = {c.type: (c.status, c.reason) for c in after.status.conditions}
    assert said[BLOCKED_ON_PREEMPTION_GATES][0] == blocked
    assert said[QUOTA_RESERVED] == ("False", reason)
    assert after.events == ()


def test_an_eviction_resets_the_status_and_keeps_the_quota_of_the_pods() -> None:
    said_at = {"lastTransitionTime": "2025-01-01T00:00:00Z"}
    gates = [{"name": "a", "position": "Open", **said_at}, {"name": "b", "position": "Closed", **said_at}]
    status = {
        "clusterName": "w1",
        "unhealthyNodes": [{"name": "n"}],
        "preemptionGates": gates,
        "conditions": [condition(BLOCKED_ON_PREEMPTION_GATES, message="a is closed")],
        "schedulingStats": {"evictions": [{"reason": "Preempted", "underlyingCause": "", "count": 2}]},
    }
    wl = workload(admitted=True, status=status)
    after = evicted(wl.status, Eviction("Preempted", "for another", preemption="InClusterQueue"), NOW + 5)
    assert (after.cluster_name, after.unhealthy_nodes, after.admission) == (None, (), wl.status.admission)
    assert [(g["name"], g["position"]) for g in after.preemption_gates] == [("a", "Closed"), ("b", "Closed")]
    assert [g["lastTransitionTime"] for g in after.preemption_gates] == ["2026-01-01T00:00:05Z", "2025-01-01T00:00:00Z"]
    assert after.scheduling_stats is not None
    assert [(c.reason, c.count) for c in after.scheduling_stats.evictions] == [("Preempted", 3)]
    said = {c.type: (c.status, c.reason, c.message) for c in after.conditions}
    assert said[EVICTED] == ("True", "Preempted", "for another")
    assert said[PREEMPTED] == ("True", "InClusterQueue", "for another")
    assert said[BLOCKED_ON_PREEMPTION_GATES] == ("False", EVICTED, "Previously: a is closed")


@pytest.mark.parametrize(
    ("admission", "reserved", "admitted"),
    [
        pytest.param(None, "True", "True", id="the admission"),
        pytest.param({"clusterQueue": "cq"}, "False", "True", id="QuotaReserved"),
        pytest.param(None, "False", "True", id="both"),
        pytest.param({"clusterQueue": "cq"}, "False", "False", id="all but the admission"),
    ],
)
def test_a_workload_whose_reservation_was_taken_back_is_not_admitted(
    admission: Any, reserved: str, admitted: str
) -> None:
    """By hand or by another controller, without an eviction. What is left of the reservation goes too."""
    wl = workload(
        status={
            "admission": admission,
            "conditions": [condition(QUOTA_RESERVED, reserved), condition(ADMITTED, admitted)],
        }
    )
    status = step(wl, context(), NOW).status
    assert status.admission is None
    told = {each.type: (each.status, each.reason) for each in status.conditions}
    assert told[QUOTA_RESERVED] == ("False", "PendingEvaluation")
    assert told[ADMITTED][0] == "False"
    assert EVICTED not in told
    again = step(wl.model_copy(update={"status": status}), context(), NOW + 1)
    assert again.status == status
