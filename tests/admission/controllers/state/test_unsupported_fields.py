"""Nothing that a user sets is silently ignored."""

from __future__ import annotations

from typing import Any

import pytest

from admission.controllers.state import unsupported_fields
from api import names
from api.meta import find_condition
from api.names import FIELDS_HONOURED
from api.queues import ClusterQueue, LocalQueue
from api.workloads import Workload
from tests.builders import NOW


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        pytest.param({"cohortName": "c", "stopPolicy": "Hold"}, [], id="all-honoured"),
        pytest.param({"preemption": {"withinClusterQueue": "LowerPriority"}}, [], id="preemption"),
        pytest.param({"fairSharing": {"weight": "2"}}, [], id="fair-sharing"),
        pytest.param(
            {"admissionChecksStrategy": {"admissionChecks": [{"name": "c", "onFlavors": ["f"]}]}}, [], id="checks"
        ),
        pytest.param({"admissionScope": {"admissionMode": "NoAdmissionFairSharing"}}, [], id="scope-off"),
        pytest.param(
            {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}},
            ["spec.admissionScope (without the setting admissionFairSharing.usageHalfLifeTime)"],
            id="scope",
        ),
        pytest.param(
            {"concurrentAdmissionPolicy": {"migration": {"mode": "RetainFirstAdmission"}}},
            ["spec.concurrentAdmissionPolicy"],
            id="migration",
        ),
    ],
)
def test_cluster_queue_fields_without_effect_are_named(spec: dict[str, Any], fields: list[str]) -> None:
    assert (
        unsupported_fields.of_cluster_queue(ClusterQueue.from_wire({"metadata": {"name": "cq"}, "spec": spec}))
        == fields
    )


def test_a_preemption_config_is_named() -> None:
    """Kueue's words for evictions within quota have no effect, and the queue says so."""
    annotations = {"kueue.x-k8s.io/preemption-config-name": "gentle"}
    [told] = unsupported_fields.of_cluster_queue(
        ClusterQueue.from_wire({"metadata": {"name": "cq", "annotations": annotations}, "spec": {}})
    )
    assert told.startswith("the annotation kueue.x-k8s.io/preemption-config-name (spec.preemption decides")


def test_other_kinds_name_theirs() -> None:
    sharing = {"fairSharing": {"weight": 3}}
    assert unsupported_fields.of_local_queue(LocalQueue.from_wire({"spec": {"clusterQueue": "cq", **sharing}})) == [
        "spec.fairSharing (the ClusterQueue does not admit by past usage)"
    ]


@pytest.mark.parametrize(
    ("name", "opted_in", "told"),
    [
        pytest.param("default", False, True, id="no label"),
        pytest.param("default", True, False, id="with the label"),
        pytest.param("other", False, False, id="another name"),
    ],
)
def test_a_default_queue_without_effect_is_named(name: str, opted_in: bool, told: bool) -> None:
    queue = LocalQueue.from_wire({"metadata": {"name": name}, "spec": {"clusterQueue": "cq"}})
    found = unsupported_fields.of_local_queue(queue, opted_in=opted_in)
    assert bool(found) is told
    assert all("kueue.x-k8s.io/managed-namespace=true" in each for each in found)


def test_the_scope_has_effect_where_the_setting_is_on() -> None:
    spec = {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}}
    queue = ClusterQueue.from_wire({"metadata": {"name": "cq"}, "spec": spec})
    assert unsupported_fields.of_cluster_queue(queue, by_usage=True) == []


@pytest.mark.parametrize(
    ("annotations", "fields"),
    [
        pytest.param({}, [], id="nothing said"),
        pytest.param({names.MOVABLE: "true", names.LAST_CHECKPOINT: "2026-11-26T10:00:00Z"}, [], id="all readable"),
        pytest.param(
            {names.MOVABLE: "yes"},
            [f"metadata.annotations[{names.MOVABLE}] ('yes': must be true or false)"],
            id="no boolean",
        ),
    ],
)
def test_unreadable_annotations_about_moves_are_named(annotations: dict[str, str], fields: list[str]) -> None:
    workload = Workload.from_wire({"metadata": {"name": "w", "namespace": "ns", "annotations": annotations}})
    assert unsupported_fields.of_workload(workload) == fields


def test_an_unreadable_budget_of_a_queue_is_named_and_no_megabyte_is_repeated() -> None:
    annotations = {names.MOVES_PER_DAY: "9" * 10**6}
    (text,) = unsupported_fields.of_cluster_queue(
        ClusterQueue.from_wire({"metadata": {"name": "cq", "annotations": annotations}})
    )
    assert text.startswith(f"metadata.annotations[{names.MOVES_PER_DAY}]")
    assert text.endswith(": must be a whole number from 0 to 100000)")
    assert len(text) < 200


def test_the_condition_comes_once_and_turns_true_when_the_field_is_taken_back() -> None:
    silent = unsupported_fields.noted((), [], 1, NOW)
    assert silent == ()
    said = unsupported_fields.noted((), ["spec.admissionScope"], 1, NOW)
    found = find_condition(said, FIELDS_HONOURED)
    assert found is not None
    assert (found.status, found.message) == ("False", "set, but without effect yet: spec.admissionScope")
    assert unsupported_fields.noted(said, ["spec.admissionScope"], 1, NOW + 60) is said
    back = find_condition(unsupported_fields.noted(said, [], 2, NOW + 60), FIELDS_HONOURED)
    assert back is not None
    assert back.status == "True"
