"""Cohorts that are each other's parents close the queues below them, and say so."""

from __future__ import annotations

import pytest

from admission.controllers.state.active_conditions import cluster_queue_activity, cohort_activity, cohort_cycle
from admission.engine.model import UnansweredCheck
from api.admission_checks import AdmissionCheck
from api.queues import ClusterQueue, Cohort


def _cohorts(**parents: str) -> dict[str, Cohort]:
    return {
        name: Cohort.from_wire({"spec": {"parentName": parent} if parent else {}}) for name, parent in parents.items()
    }


@pytest.mark.parametrize(
    ("parents", "cycle"),
    [
        pytest.param({}, [], id="implicit"),
        pytest.param({"a": ""}, [], id="root"),
        pytest.param({"a": "b", "b": "nobody"}, [], id="chain"),
        pytest.param({"a": "a"}, ["a"], id="itself"),
        pytest.param({"a": "b", "b": "c", "c": "b"}, ["b", "c"], id="further up"),
    ],
)
def test_cycles_are_found_from_below(parents: dict[str, str], cycle: list[str]) -> None:
    assert cohort_cycle("a", _cohorts(**parents)) == cycle


def test_a_queue_below_a_cycle_says_so() -> None:
    queue = ClusterQueue.from_wire({"metadata": {"name": "cq"}, "spec": {"cohortName": "a"}})
    activity = cluster_queue_activity(queue, {}, {}, {}, _cohorts(a="b", b="a"))
    assert (activity.active, activity.reason) == (False, "CohortCycle")
    assert activity.message == "Can't admit new workloads: its cohorts are each other's parents: a -> b -> a."


@pytest.mark.parametrize(
    ("name", "says"),
    [
        pytest.param("a", "No queue below can admit: cohorts are each other's parents: a -> b -> a.", id="on-it"),
        pytest.param(
            "under", "No queue below can admit: cohorts are each other's parents: b -> a -> b.", id="below-it"
        ),
        pytest.param("apart", None, id="apart"),
    ],
)
def test_a_cohort_says_so_as_well(name: str, says: str | None) -> None:
    activity = cohort_activity(name, _cohorts(a="b", b="a", under="b", apart=""))
    assert activity.active is (says is None)
    assert says is None or (activity.reason, activity.message) == ("CohortCycle", says)


def test_unanswered_checks_are_known_with_their_controllers() -> None:
    """For `stowage explain`; the condition keeps Kueue's text."""

    def check(name: str, controller: str, active: bool) -> AdmissionCheck:
        state = {"type": "Active", "status": str(active), "reason": "R", "message": "M"}
        wire = {"metadata": {"name": name}, "spec": {"controllerName": controller}, "status": {"conditions": [state]}}
        return AdmissionCheck.from_wire(wire)

    rules = [{"name": name} for name in ("gone", "idle", "prov", "works")]
    spec = {"admissionChecksStrategy": {"admissionChecks": rules}}
    queue = ClusterQueue.from_wire({"metadata": {"name": "cq"}, "spec": spec})
    provisioning = "kueue.x-k8s.io/provisioning-request"
    checks = {
        "idle": check("idle", "example.com/a", False),
        "prov": check("prov", provisioning, True),
        "works": check("works", "example.com/b", True),
    }
    found = cluster_queue_activity(queue, {}, {}, checks)
    assert found.unanswered == (
        UnansweredCheck("gone"),
        UnansweredCheck("idle", "example.com/a", says="M"),
        UnansweredCheck("prov", provisioning, supported=False, says="M"),
    )
    assert (found.active, found.only_checks) == (False, True)
    assert found.message == (
        "Can't admit new workloads: references missing AdmissionCheck(s): gone, references inactive AdmissionCheck(s): idle."
    )
