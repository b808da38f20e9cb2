"""Nothing that a user sets is silently ignored."""

from __future__ import annotations

from typing import Any

import pytest

from admission.controllers import unsupported_fields
from api.meta import find_condition
from api.names import FIELDS_HONOURED
from api.queues import ClusterQueue, LocalQueue
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
        pytest.param(
            {"admissionScope": {"admissionMode": "NoAdmissionFairSharing"}}, ["spec.admissionScope"], id="scope"
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


def test_other_kinds_name_theirs() -> None:
    sharing = {"fairSharing": {"weight": 3}}
    assert unsupported_fields.of_local_queue(LocalQueue.from_wire({"spec": {"clusterQueue": "cq", **sharing}})) == [
        "spec.fairSharing"
    ]


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
