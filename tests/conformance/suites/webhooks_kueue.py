"""Validation of Workloads, ClusterQueues, Cohorts and ResourceFlavors.

Types and fields are compared with what is wanted; values and messages with what was observed, where the value is plain
(the key order of a printed object is Go's) and no memory address stands in the message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from admission.webhook.kinds import flavors, queues, workloads
from admission.webhook.rules.fields import Errors
from admission.webhook.rules.review_rules import ReviewRules
from tests.conformance.suites.topology_request_from_annotations import wire
from tests.conformance.suites.webhooks_job import rules_of

Given = dict[str, Any]

JUDGES: dict[str, Callable[[Given, ReviewRules], Errors]] = {
    "TestValidateWorkload": lambda value, rules: workloads.validate_create(value["workload"], rules),
    "TestValidateWorkloadUpdate": lambda value, rules: workloads.validate_update(
        value["before"], value["after"], rules
    ),
    "TestValidateClusterQueue": lambda value, rules: queues.validate_cluster_queue(value["clusterQueue"], rules),
    "TestValidateClusterQueueUpdate": lambda value, rules: queues.validate_cluster_queue_update(
        value["oldClusterQueue"], value["newClusterQueue"], rules
    ),
    "TestValidateResourceFlavor": lambda value, _: flavors.validate_flavor(value["rf"]),
    "TestValidateCohort": lambda value, _: queues.validate_cohort(value["cohort"]),
}
_ADDRESS = "is not a multiple of "


def run(case: dict[str, Any]) -> None:
    """One creation or change."""
    errors = wire(JUDGES[case["name"].partition("/")[0]](case["input"], rules_of(case)))
    assert _places(errors) == _places(_listed(case["want"].get("wantErr")))
    assert sorted(map(_line, errors)) == sorted(map(_line, _observed(case)))
    if case["want"].get("wantWarnings") is not None or "workload" in case["input"]:
        assert workloads.warnings(case["input"].get("workload") or {}) == (case["want"]["wantWarnings"] or [])


def _observed(case: dict[str, Any]) -> list[Given]:
    observed = case.get("observed") or {}
    return _listed(observed.get("errors", observed.get("err")))


def _listed(errors: Any) -> list[Given]:
    return list(errors["errors"] if isinstance(errors, dict) else errors or ())


def _places(errors: list[Given]) -> list[tuple[str, str]]:
    return sorted((error["type"], error["field"]) for error in errors)


def _line(error: Given) -> str:
    value = error.get("badValue")
    shown = error["detail"] if isinstance(value, dict | list) else error["message"]
    return str(shown).partition(_ADDRESS)[0]
