"""Admission checks answered by a user's controller: which apply, and what each answer does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from admission.controllers.state import conditions
from admission.controllers.state.checks import checks_for
from admission.controllers.state.lifecycle import LifecycleStep, step
from api.meta import find_condition, is_true, parse_time, rfc3339
from api.names import ADMITTED, DEACTIVATION_TARGET, QUOTA_RESERVED, REQUEUED
from api.queues import ClusterQueue
from api.workloads import Admission, Workload
from tests.admission.controllers.state.test_lifecycle import context
from tests.builders import NOW, workload


def queue(**checks: list[str]) -> ClusterQueue:
    """Two flavors; checks by name with their flavors."""
    flavors = [{"name": name, "resources": [{"name": "cpu", "nominalQuota": 1}]} for name in ("a", "b")]
    rules = [{"name": name, "onFlavors": on} for name, on in checks.items()]
    spec = {
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}],
        "admissionChecksStrategy": {"admissionChecks": rules},
    }
    return ClusterQueue.from_wire({"metadata": {"name": "cq"}, "spec": spec})


def got(flavor: str) -> Admission:
    psa = {"name": "main", "flavors": {"cpu": flavor}, "count": 1}
    return Admission.from_wire({"clusterQueue": "cq", "podSetAssignments": [psa]})


@pytest.mark.parametrize(
    ("checks", "admission", "applies"),
    [
        pytest.param({"all": []}, None, ("all",), id="all-flavors-before"),
        pytest.param({"all": []}, got("a"), ("all",), id="all-flavors-after"),
        pytest.param({"both": ["a", "b"]}, None, ("both",), id="no-way-around-it"),
        pytest.param({"one": ["a"]}, None, (), id="may-be-avoided"),
        pytest.param({"one": ["a"]}, got("a"), ("one",), id="its-flavor-was-chosen"),
        pytest.param({"one": ["a"]}, got("b"), (), id="another-flavor-was-chosen"),
        pytest.param({"one": ["a"], "two": ["b"], "all": []}, got("b"), ("two", "all"), id="several"),
    ],
)
def test_which_checks_apply(
    checks: Mapping[str, list[str]], admission: Admission | None, applies: tuple[str, ...]
) -> None:
    assert checks_for(queue(**checks), admission) == applies


def test_a_new_check_says_all_that_the_api_server_asks_for() -> None:
    [check] = after(workload()).status.to_wire()["admissionChecks"]
    assert check == {"name": "c", "state": "Pending", "message": "", "lastTransitionTime": rfc3339(NOW + 1)}


def test_a_queue_without_checks_has_none() -> None:
    assert checks_for(ClusterQueue.from_wire({"spec": {}})) == ()


def checked(state: str, *, admitted: bool = True, **more: Any) -> Workload:
    """Holds quota since NOW; its check `c` was answered at NOW."""
    check = {"name": "c", "state": state, "lastTransitionTime": rfc3339(NOW), "message": "says so", **more}
    made = workload(admitted=True, status={"admissionChecks": [check]})
    if admitted:
        return made
    return made.model_copy(update={"status": conditions.without(made.status, ADMITTED)})


def after(wl: Workload, seconds: float = 1) -> LifecycleStep:
    return step(wl, context(checks=("c",)), NOW + seconds)


def test_ready_admits_and_records_no_other_event() -> None:
    assert is_true(after(checked("Ready", admitted=False)).status.conditions, ADMITTED)
    assert not is_true(after(checked("Pending", admitted=False)).status.conditions, ADMITTED)


@pytest.mark.parametrize("admitted", [True, False], ids=["runs", "has-quota"])
def test_retry_gives_the_quota_back_and_comes_again_later(admitted: bool) -> None:
    gone = after(checked("Retry", admitted=admitted, requeueAfterSeconds=90, retryCount=1))
    assert gone.eviction is not None
    assert gone.eviction.event == "EvictedDueToAdmissionCheck"
    assert gone.eviction.message == 'Evicted due to AdmissionCheck in Retry state: "c" (says so)'
    [check] = gone.status.admission_checks
    assert (check.state, check.retry_count, check.requeue_after_seconds) == ("Pending", 2, 90)
    assert check.message == "Reset to Pending after eviction. Previously: Retry"
    assert gone.status.requeue_state is not None
    assert parse_time(gone.status.requeue_state.requeue_at) == NOW + 90
    waiting = workload().model_copy(update={"status": conditions.released(gone.status, NOW + 2)})
    assert after(waiting, 10).again_in == 80
    assert not is_true(after(waiting, 10).status.conditions, REQUEUED)
    found = find_condition(after(waiting, 90).status.conditions, REQUEUED)
    assert found is not None
    assert (found.status, found.reason) == ("True", "BackoffFinished")


def test_retry_without_a_time_comes_again_at_once() -> None:
    gone = after(checked("Retry"))
    waiting = workload().model_copy(update={"status": conditions.released(gone.status, NOW + 2)})
    assert is_true(after(waiting, 3).status.conditions, REQUEUED)


def test_the_latest_of_several_retries_counts() -> None:
    retry = {"state": "Retry", "lastTransitionTime": rfc3339(NOW), "message": ""}
    asked = [{"name": "a", "requeueAfterSeconds": 10, **retry}, {"name": "b", "requeueAfterSeconds": 500, **retry}]
    gone = step(workload(admitted=True, status={"admissionChecks": asked}), context(checks=("a", "b")), NOW + 1)
    assert gone.status.requeue_state is not None
    assert parse_time(gone.status.requeue_state.requeue_at) == NOW + 500


def test_rejected_deactivates() -> None:
    refused = after(checked("Rejected"))
    assert refused.deactivate
    assert [(o.type, o.reason) for o in refused.events] == [("Warning", "AdmissionCheckRejected")]
    assert refused.events[0].message == 'Deactivated due to AdmissionCheck in Rejected state: "c" (says so)'
    target = find_condition(refused.status.conditions, DEACTIVATION_TARGET)
    assert target is not None
    assert target.reason == "AdmissionCheck"
    inactive = workload(spec={"active": False}).model_copy(update={"status": refused.status})
    gone = after(inactive, 2)
    assert gone.eviction is not None
    assert gone.eviction.event == "EvictedDueToDeactivatedDueToAdmissionCheck"
    assert [check.state for check in gone.status.admission_checks] == ["Pending"]
    assert is_true(gone.status.conditions, QUOTA_RESERVED), "until the job has stopped"


def test_rejected_before_there_is_quota_deactivates_too() -> None:
    check = {"name": "c", "state": "Rejected", "lastTransitionTime": rfc3339(NOW), "message": "never"}
    refused = after(workload(status={"admissionChecks": [check]}))
    assert refused.deactivate
    off = workload(spec={"active": False}).model_copy(update={"status": refused.status})
    gone = after(off.model_copy(update={"status": after(off).status})).status
    waits = find_condition(gone.conditions, QUOTA_RESERVED)
    assert waits is not None
    assert (waits.status, waits.reason) == ("False", "Deactivated")
    back = after(workload().model_copy(update={"status": gone})).status
    assert not is_true(back.conditions, DEACTIVATION_TARGET)
    assert [check.state for check in back.admission_checks] == ["Pending"]
