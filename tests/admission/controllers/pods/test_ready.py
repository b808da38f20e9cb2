"""When a group's Workload says that its pods are ready: all that it is for, also those that are still to come (again)."""

from __future__ import annotations

from typing import Any

import pytest

from admission.controllers.jobs.context import JobContext, JobOptions
from admission.controllers.jobs.plan.pods_ready import with_pods_ready
from admission.controllers.pods.gangs.gang import GangTerms, GangUnit
from admission.controllers.pods.pod_plan import plan
from admission.controllers.state import conditions
from admission.controllers.state.actions import SetStatus
from admission.integrations.pods.podgroup import PodUnit
from api import names
from api.meta import find_condition
from api.workloads import Admission, Workload
from tests.admission.integrations.pods import unit, wire

NOW = 1_767_225_700.0
AROUND = JobContext(options=JobOptions(wait_for_pods_ready=True))
FAST = {names.POD_GROUP_FAST_ADMISSION: "true"}
SERVING = {**FAST, names.POD_GROUP_SERVING: "true"}


def pod(name: str, *, ready: bool = True, phase: str = "Running", **more: Any) -> dict[str, Any]:
    """Of a group of three, let through and bound."""
    found = wire(name, group="g", total=3, gated=False, phase=phase, node="n", **more)
    found["status"]["conditions"] = [{"type": "Ready", "status": str(ready)}]
    return found


def admitted(of: PodUnit, done: int = 0) -> Workload:
    """The Workload of three such pods, `done` of which have given their quota back."""
    role = of.first.role
    given_back = [{"name": role, "count": done}] if done else []
    workload = Workload.from_wire(
        {
            "metadata": {"name": "g", "namespace": "ns", "annotations": {names.IS_GROUP_WORKLOAD: "true"}},
            "spec": {
                "queueName": "q",
                "podSets": [{"name": role, "count": 3, "template": {"spec": {"containers": []}}}],
            },
            "status": {"reclaimablePods": given_back},
        }
    )
    status = conditions.reserved(workload.status, Admission(cluster_queue="cq"), NOW)
    return workload.model_copy(update={"status": conditions.synced_admitted(status, NOW)})


def said(of: PodUnit, workload: Workload) -> tuple[str, str]:
    statuses = [each.status for each in plan(of, [workload], AROUND, NOW).actions if isinstance(each, SetStatus)]
    found = find_condition(statuses[-1].conditions, names.PODS_READY)
    assert found is not None
    return found.status, found.reason


@pytest.mark.parametrize(
    ("pods", "status"),
    [
        pytest.param([pod("a"), pod("b"), pod("c")], "True", id="all"),
        pytest.param([pod("a"), pod("b"), pod("c", ready=False)], "False", id="one is not"),
        pytest.param([pod("a"), pod("b"), pod("c", ready=False, phase="Succeeded")], "True", id="one has succeeded"),
        pytest.param([pod("a"), pod("b"), pod("c", ready=False, phase="Failed")], "False", id="one has failed"),
        pytest.param([pod("a", annotations=FAST)], "False", id="two are still to be created"),
    ],
)
def test_a_group_is_ready_with_all_its_pods(pods: list[dict[str, Any]], status: str) -> None:
    of = unit(*pods)
    assert said(of, admitted(of))[0] == status


def test_what_kueue_said_of_readiness_is_kept_up_to_date_where_the_settings_ask_for_nothing() -> None:
    of, around = unit(pod("a"), pod("b"), pod("c")), JobContext()
    silent = admitted(of)
    assert not [a for a in plan(of, [silent], around, NOW).actions if isinstance(a, SetStatus)]
    waits = with_pods_ready(silent.status, False, NOW)
    (told,) = (
        a
        for a in plan(of, [silent.model_copy(update={"status": waits})], around, NOW).actions
        if isinstance(a, SetStatus)
    )
    found = find_condition(told.status.conditions, names.PODS_READY)
    assert found is not None
    assert (found.status, found.reason) == ("True", "Started")


@pytest.mark.parametrize(
    ("phases", "reclaimed", "told"),
    [
        pytest.param(["Succeeded", "Running", "Running"], 0, 1, id="one-is-done"),
        pytest.param(["Succeeded", "Succeeded", "Running", "Running"], 0, 2, id="the-fourth-is-ended"),
        pytest.param(["Succeeded", "Running"], 2, 2, id="a-pod-that-was-done-is-gone"),
        pytest.param(["Succeeded", "Running", "Running"], 7, 1, id="the-status-is-absurd"),
    ],
)
def test_no_more_pods_of_a_group_are_reclaimable_than_do_not_run(phases: list[str], reclaimed: int, told: int) -> None:
    of = unit(*(pod(f"p{i}", phase=phase, ready=phase == "Running") for i, phase in enumerate(phases)))
    statuses = [a.status for a in plan(of, [admitted(of, reclaimed)], AROUND, NOW).actions if isinstance(a, SetStatus)]
    counts = [{each.count for each in status.reclaimable_pods} for status in statuses if status.reclaimable_pods]
    assert all(count == {told} for count in counts)
    assert counts or reclaimed == told


def test_the_first_pods_of_an_ordered_set_are_its_start_and_no_recovery() -> None:
    first = unit(pod("s-0", annotations=SERVING), pod("s-1", ready=False, annotations=SERVING))
    assert said(first, admitted(first)) == ("False", "WaitForStart")


def test_a_set_that_was_scaled_down_is_ready_with_those_that_are_left() -> None:
    of = unit(pod("s-0", annotations=SERVING))
    assert said(of, admitted(of, done=2)) == ("True", "Started")


@pytest.mark.parametrize(
    ("left", "status"),
    [pytest.param("ab", "True", id="as many as its minimum"), pytest.param("a", "False", id="fewer")],
)
def test_a_gang_is_ready_with_as_many_as_its_minimum(left: str, status: str) -> None:
    of = GangUnit.of_gang(unit(*(pod(name) for name in left)), GangTerms("g", minimum=2))
    assert said(of, admitted(of))[0] == status
